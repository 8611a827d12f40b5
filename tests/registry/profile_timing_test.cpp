// How calls get the times of the kernels they launched: the matching on made-up launches, then CUPTI on a GPU.

#include "registry/profiling/profile_timing.hpp"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/plan.hpp"
#include "registry/profiling/profiler.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using std::chrono::nanoseconds;

ProfileTime at(std::int64_t ns) {
  return ProfileTime(nanoseconds(ns));
}

CallRecord call_between(std::int64_t start_ns, std::int64_t end_ns) {
  CallRecord call;
  call.stream.device = Device::cuda();
  call.launch_start = at(start_ns);
  call.launch_end = at(end_ns);
  return call;
}

LaunchActivity launch(std::int64_t launched_ns, std::int64_t start_ns, std::int64_t end_ns) {
  return {7, at(launched_ns), at(start_ns), at(end_ns), true};
}

TEST(SetDeviceTimes, EachCallGetsWhatItLaunched) {
  std::mt19937_64 random(std::random_device{}());
  std::vector<CallRecord> calls;
  std::vector<LaunchActivity> launches;
  std::vector<std::optional<std::pair<std::int64_t, std::int64_t>>> expected;
  std::int64_t host_ns = 1000, device_ns = 5000;
  std::size_t num_lost = 0;
  for (int i = 0; i < 500; ++i) {
    const std::int64_t start_ns = host_ns, end_ns = host_ns + 100 + static_cast<std::int64_t>(random() % 3000);
    calls.push_back(call_between(start_ns, end_ns));
    calls.back().captured = random() % 10 == 0;
    expected.emplace_back();
    const bool is_lost = random() % 10 == 0;
    if (is_lost && !calls.back().captured) ++num_lost;
    const std::int64_t took_ns = 1 + static_cast<std::int64_t>(random() % 5000);
    if (!is_lost) {
      launches.push_back(launch((start_ns + end_ns) / 2, device_ns, device_ns + took_ns));
      if (!calls.back().captured) expected.back() = {device_ns, device_ns + took_ns};
    }
    device_ns += took_ns + 10;
    host_ns = end_ns + 50;
    if (random() % 5 == 0) {  // somebody else's, between two calls
      launches.push_back(launch(end_ns + 25, device_ns, device_ns + 3));
      device_ns += 10;
    }
  }
  EXPECT_EQ(set_device_times(calls, launches, true), num_lost);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!expected[i].has_value()) {
      EXPECT_LT(calls[i].device_us, 0) << i;
      continue;
    }
    EXPECT_EQ(calls[i].device_start, at(expected[i]->first)) << i;
    EXPECT_EQ(calls[i].device_end, at(expected[i]->second)) << i;
    EXPECT_DOUBLE_EQ(calls[i].device_us, to_us(calls[i].device_end - calls[i].device_start)) << i;
  }
}

TEST(SetDeviceTimes, SeveralKernelsOfACallAddUpWithoutWhatLiesBetween) {
  std::vector<CallRecord> calls{call_between(0, 100)};
  // The second one begins before the first one ends, the third long after.
  set_device_times(calls, std::vector{launch(10, 1000, 2000), launch(20, 1500, 2500), launch(30, 9000, 9100)}, true);
  EXPECT_EQ(calls[0].device_start, at(1000));
  EXPECT_EQ(calls[0].device_end, at(9100));
  EXPECT_DOUBLE_EQ(calls[0].device_us, 1.6);
  // Once more is known it counts from the beginning.
  set_device_times(calls, std::vector{launch(10, 1000, 2000), launch(20, 1500, 2500), launch(30, 9000, 9200)}, true);
  EXPECT_DOUBLE_EQ(calls[0].device_us, 1.7);
}

TEST(SetDeviceTimes, CallsMayBeTakenDownInAnyOrder) {
  std::vector<CallRecord> calls{call_between(200, 300), call_between(0, 100)};
  CallRecord on_cpu = call_between(400, 500);
  on_cpu.stream.device = Device::cpu();
  calls.push_back(on_cpu);
  set_device_times(calls, std::vector{launch(50, 1000, 1001), launch(250, 1002, 1004), launch(450, 1005, 1006)}, true);
  EXPECT_EQ(calls[0].device_start, at(1002));
  EXPECT_EQ(calls[1].device_start, at(1000));
  EXPECT_LT(calls[2].device_us, 0);
}

TEST(SetDeviceTimes, WhatWasLaunchedAndDidNotRunWasCapturedByOthers) {
  const Plan plan_of_nothing;
  Plan plan;
  plan.steps.resize(1);
  std::vector<CallRecord> calls{call_between(0, 100), call_between(200, 300), call_between(400, 500),
                                call_between(600, 700)};
  calls[0].plan = calls[1].plan = &plan;
  calls[2].plan = &plan_of_nothing;
  LaunchActivity captured;
  captured.launched = at(50);
  std::vector<LaunchActivity> launches{captured};
  captured.launched = at(650);  // a graph: its copies ran
  launches.push_back(captured);
  EXPECT_EQ(set_device_times(calls, launches, false), 3u);
  EXPECT_FALSE(calls[0].captured);
  EXPECT_EQ(set_device_times(calls, launches, true), 2u);
  EXPECT_TRUE(calls[0].captured);
  EXPECT_FALSE(calls[1].captured);
  EXPECT_FALSE(calls[2].captured);
  EXPECT_FALSE(calls[3].captured);
}

constexpr ProfilerOptions kByCupti{.device_time_source = DeviceTimeSource::cupti};
constexpr ProfilerOptions kByEvents{.device_time_source = DeviceTimeSource::events};

TEST(ProfileTimingTest, AskedForCuptiWhereItIsNotSaysWhereItWasLookedFor) {
  const ScopedVariable path("KILN_CUPTI_PATH", "/nowhere/libcupti.so.13");
  EXPECT_THAT(error_message<DeviceError>([] { const Profiler profiler(kByCupti); }),
              AnyOf(HasSubstr("this build has no CUPTI"), Says("/nowhere/libcupti.so.13", "KILN_CUPTI_PATH")));
  const Profiler next;  // nothing is left of the one that failed
}

TEST(ProfileTimingTest, NoGpuIsTimedNoWayIsSaid) {
  Profiler profiler;
  EXPECT_EQ(profiler.report().device_timing, "");
  EXPECT_THAT(to_string(profiler.report()), Not(HasSubstr("device times")));
}

class CuptiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<Device> devices = available_devices();
    if (devices.empty() || !devices.back().is_cuda()) GTEST_SKIP() << device_problem(DeviceType::cuda);
    try {
      const Profiler profiler(kByCupti);
    } catch (const DeviceError& error) {
      GTEST_SKIP() << error.what();
    }
    small_ = values(1024);
    out_ = empty({1024}, DType::f32, device_);
    outs_ = {out_};
    dispatch_small();
    synchronize(Stream::default_of(device_));
  }

  Tensor values(std::int64_t count) {
    std::mt19937_64 random(std::random_device{}());
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = static_cast<float>(random() % 1000);
    return make_f32(numbers, device_);
  }
  void dispatch_small() { dispatch_gpu_op("add", {small_, small_}, {}, {.outputs = outs_}); }
  void dispatch_small(int times) {
    for (int i = 0; i < times; ++i) dispatch_small();
  }

  const Device device_ = Device::cuda();
  Tensor small_, out_;
  std::vector<Tensor> outs_;
};

TEST_F(CuptiTest, SmallKernelsAreAsShortAsTheyAre) {
  Profiler profiler;
  dispatch_small(200);
  synchronize(Stream::default_of(device_));
  const ProfileReport report = profiler.report();
  ASSERT_EQ(report.device_timing, "by CUPTI");
  EXPECT_THAT(to_string(report), HasSubstr("device times by CUPTI"));
  ASSERT_EQ(report.rows.size(), 1u);
  const TimeDistribution& time = report.rows[0].device_time;
  EXPECT_EQ(time.count, 200u);
  EXPECT_EQ(report.untimed, 0u);
  EXPECT_GT(time.min_us, 0.1);
  EXPECT_LT(time.p50_us, 3);
  EXPECT_LT(time.total_us, report.elapsed_us);
}

TEST_F(CuptiTest, EventsOnRequestAndWhereCuptiIsNotFound) {
  Profiler by_events(kByEvents);
  dispatch_small(20);
  const ProfileReport asked = by_events.report();
  EXPECT_EQ(asked.rows.at(0).device_time.count, 20u);
  EXPECT_THAT(asked.device_timing, StartsWith("by events: kernels of a few microseconds appear longer"));
  EXPECT_THAT(asked.device_timing, HasSubstr("as asked for"));

  const ScopedVariable path("KILN_CUPTI_PATH", "/nowhere/libcupti.so.13");
  Profiler fallen_back;
  dispatch_small(20);
  const ProfileReport without = fallen_back.report();
  EXPECT_EQ(without.rows.at(0).device_time.count, 20u);
  EXPECT_GT(without.rows[0].device_time.min_us, 0);
  EXPECT_THAT(without.device_timing, Says("CUPTI cannot be used", "/nowhere/libcupti.so.13"));
}

TEST_F(CuptiTest, OneAfterTheOther) {
  for (int round = 0; round < 3; ++round) {
    Profiler profiler(kByCupti);
    dispatch_small(10 + round);
    const ProfileReport report = profiler.report();
    EXPECT_EQ(report.rows.at(0).device_time.count, static_cast<std::size_t>(10 + round));
    dispatch_small(5);  // between two profilers nothing is taken down
  }
}

TEST_F(CuptiTest, ThreadsOnStreamsOfTheirOwnAndSharedGetTheirOwnTimes) {
  const std::vector<std::string> ops{"add", "sub", "mul", "maximum"};
  constexpr int kCalls = 300;
  // Each op works on 16 times as much as the one before: mixed up times would show.
  std::vector<Tensor> inputs, outputs;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    inputs.push_back(values(std::int64_t{4096} << (4 * i)));
    outputs.push_back(empty({inputs.back().numel()}, DType::f32, device_));
    const std::vector<Tensor> outs{outputs.back()};
    dispatch_gpu_op(ops[i], {inputs.back(), inputs.back()}, {}, {.outputs = outs});
  }
  synchronize(Stream::default_of(device_));
  for (const bool shares_stream : {false, true}) {
    const OwnedStream shared(device_);
    Profiler profiler;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ops.size(); ++i)
      threads.emplace_back([&, i] {
        const OwnedStream own(device_);
        const Stream stream = shares_stream ? shared.get() : own.get();
        const std::vector<Tensor> outs{outputs[i]};
        for (int call = 0; call < kCalls; ++call)
          dispatch_gpu_op(ops[i], {inputs[i], inputs[i]}, {}, {.outputs = outs, .stream = stream});
        synchronize(stream);
      });
    for (std::thread& thread : threads) thread.join();
    const ProfileReport report = profiler.report();
    ASSERT_EQ(report.rows.size(), ops.size());
    EXPECT_EQ(report.untimed, 0u);
    std::vector<double> medians_us;
    for (const std::string& op : ops) {
      const auto row =
          std::find_if(report.rows.begin(), report.rows.end(), [&](const auto& one) { return one.op == op; });
      ASSERT_NE(row, report.rows.end());
      EXPECT_EQ(row->device_time.count, static_cast<std::size_t>(kCalls));
      EXPECT_LE(row->device_time.total_us, report.elapsed_us);
      medians_us.push_back(row->device_time.p50_us);
    }
    EXPECT_LT(medians_us[0], 5);
    EXPECT_GT(medians_us[3], 3 * medians_us[0]);
    EXPECT_GT(medians_us[3], medians_us[2]);
  }
}

TEST_F(CuptiTest, AGraphIsOneSliceFromItsFirstKernelToItsLast) {
  const OwnedStream stream(device_);
  const auto record = [&] {
    for (int i = 0; i < 10; ++i)
      dispatch_gpu_op("add", {small_, small_}, {}, {.outputs = outs_, .stream = stream.get()});
  };
  const Graph before = capture(stream, record);  // before CUPTI looks on
  Profiler profiler;
  const Graph graph = capture(stream, record);
  for (int i = 0; i < 5; ++i) {
    before.launch(stream);
    graph.launch(stream);
  }
  const ProfileReport report = profiler.report();
  EXPECT_EQ(report.graph_device_time.count, 10u);
  EXPECT_GT(report.graph_device_time.min_us, 10 * 0.3);
  EXPECT_LT(report.graph_device_time.p50_us, 60);
  EXPECT_EQ(report.rows.at(0).captured, 10u);
  EXPECT_EQ(report.rows.at(0).device_time.count, 0u);
  EXPECT_EQ(report.untimed, 0u);
}

TEST_F(CuptiTest, AnotherStreamMayBeCapturedWhileAProfilerEnds) {
  const OwnedStream captured(device_), other(device_);
  const auto dispatch_on = [&](Stream stream) {
    dispatch_gpu_op("add", {small_, small_}, {}, {.outputs = outs_, .stream = stream});
  };
  const Graph graph = capture(captured, [&] {
    dispatch_on(captured);
    std::thread([&] {
      Profiler profiler;
      for (int i = 0; i < 3; ++i) dispatch_on(other);
      EXPECT_EQ(profiler.report().rows.at(0).device_time.count, 3u);
    }).join();
    dispatch_on(captured);
  });
  graph.launch(captured);
  synchronize(captured);
}

TEST_F(CuptiTest, MoreRecordsThanThereIsRoomForAreLeftOut) {
  ProfilerOptions options = kByCupti;
  options.max_records = 50;
  Profiler profiler(options);
  dispatch_small(200);
  const ProfileReport report = profiler.report();
  EXPECT_LE(report.rows.at(0).count, 50u);
  EXPECT_GE(report.dropped, 150u);
  EXPECT_LE(report.rows[0].device_time.count, report.rows[0].count);
}

}  // namespace
}  // namespace kiln::test
