// What a profiler records is what was run: counts, times, phases, threads; and what it refuses.

#include "registry/profiling/profiler.hpp"
#include "registry/profiling/known_peak.hpp"
#include "registry/user_ops/user_op.hpp"

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/inspection/measured_peak.hpp"
#include "registry/inspection/random_input.hpp"
#include "registry/tuning/tuning.hpp"
#include "runtime/device_info.hpp"
#include "runtime/graph.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

Tensor random_f32(const Dims& shape, Device device) {
  static std::uint64_t seed = std::random_device{}();
  const Tensor host = empty(shape, DType::f32, Device::cpu());
  fill_random(host, {}, ++seed, 0);
  return device.is_cuda() ? to_device(host, device) : host;
}

const ProfileRow* row_of(const ProfileReport& report, const std::string& op, const std::string& shapes) {
  const auto row = std::find_if(report.rows.begin(), report.rows.end(),
                                [&](const ProfileRow& one) { return one.op == op && one.shapes == shapes; });
  return row == report.rows.end() ? nullptr : &*row;
}

const ProfileTotal* total_of(const ProfileReport& report, const std::string& op) {
  const auto total =
      std::find_if(report.ops.begin(), report.ops.end(), [&](const ProfileTotal& one) { return one.op == op; });
  return total == report.ops.end() ? nullptr : &*total;
}

void expect_consistent(const TimeDistribution& time) {
  EXPECT_NEAR(time.mean_us * static_cast<double>(time.count), time.total_us, 1e-6 * time.total_us);
  EXPECT_LE(time.min_us, time.p50_us);
  EXPECT_LE(time.p50_us, time.p99_us);
  EXPECT_LE(time.p99_us, time.max_us);
  EXPECT_GE(time.mean_us, time.min_us);
  EXPECT_LE(time.mean_us, time.max_us * (1 + 1e-12));
}

using ProfilerTest = DevicesTest;

TEST_F(ProfilerTest, CountsCallsByOpAndShape) {
  for (const Device device : devices_) {
    const Tensor a = random_f32({64, 33}, device), b = random_f32({64, 33}, device), row = random_f32({33}, device);
    const Tensor out = empty({64, 33}, DType::f32, device);
    const std::vector<Tensor> outs{out};
    const ResolvedOp add = resolve("add", {a, b});
    const Stream stream = Stream::default_of(device);
    Profiler profiler;
    for (int i = 0; i < 7; ++i) dispatch_gpu_op("add", {a, row});
    for (int i = 0; i < 5; ++i) add({a, b}, {out}, stream);
    for (int i = 0; i < 3; ++i) dispatch_gpu_op_all("mul", std::vector{a, b}, {}, {.outputs = outs});
    profiler.stop();
    dispatch_gpu_op("add", {a, row});
    const ProfileReport report = profiler.report();
    ASSERT_EQ(report.rows.size(), 3u) << to_string(report);
    const ProfileRow* const broadcast = row_of(report, "add", "64x33, 33 -> 64x33");
    const ProfileRow* const resolved = row_of(report, "add", "64x33, 64x33 -> 64x33");
    const ProfileRow* const mul = row_of(report, "mul", "64x33, 64x33 -> 64x33");
    ASSERT_TRUE(broadcast != nullptr && resolved != nullptr && mul != nullptr) << to_string(report);
    EXPECT_EQ(broadcast->count, 7u);
    EXPECT_EQ(resolved->count, 5u);
    EXPECT_EQ(mul->count, 3u);
    for (const ProfileRow& one : report.rows) {
      EXPECT_EQ(one.device, device);
      EXPECT_EQ(one.dtypes, "f32");
      EXPECT_EQ(one.captured, 0u);
      EXPECT_EQ(one.device_time.count, one.count);
      EXPECT_EQ(one.host_time.count, one.count);
      expect_consistent(one.device_time);
      expect_consistent(one.host_time);
      EXPECT_GT(one.device_time.min_us, 0);
      EXPECT_LE(one.device_time.total_us, report.elapsed_us);
      EXPECT_NEAR(one.gb_s, one.bytes * static_cast<double>(one.count) / one.device_time.total_us * 1e-3,
                  1e-9 * one.gb_s);
      EXPECT_FALSE(one.config.empty());
    }
    EXPECT_EQ(resolved->bytes, 3 * 64 * 33 * 4);
    const ProfileTotal* const total = total_of(report, "add");
    ASSERT_NE(total, nullptr);
    EXPECT_EQ(total->count, 12u);
    EXPECT_NEAR(total->device_us, broadcast->device_time.total_us + resolved->device_time.total_us, 1e-6);
    EXPECT_EQ(report.threads, 1u);
    EXPECT_EQ(report.failed, 0u);
    EXPECT_EQ(report.dropped, 0u);
  }
}

TEST_F(ProfilerTest, ReportNamesDtypesWhereTheyDiffer) {
  const Tensor values = random_f32({10, 4}, Device::cpu());
  const Tensor wide = dispatch_gpu_op("cast", {values}, {{"dtype", DType::f64}});
  Profiler profiler;
  dispatch_gpu_op("cast", {values}, {{"dtype", DType::f64}});
  const ProfileReport report = profiler.report();
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].dtypes, "f32 -> f64");
  EXPECT_EQ(report.rows[0].shapes, "10x4 -> 10x4");
}

TEST_F(ProfilerTest, TheRooflineIsWhatThePeaksSay) {
  const Tensor a = random_f32({1000, 100}, Device::cpu());
  Profiler profiler;
  dispatch_gpu_op("add", {a, a});
  const ProfileReport unknown = profiler.report([](Device, DType) { return RooflinePeak{}; });
  EXPECT_EQ(unknown.rows[0].roofline_share, 0);
  EXPECT_EQ(unknown.devices_without_peak, std::vector{Device::cpu()});
  EXPECT_THAT(to_string(unknown), HasSubstr("no peak of cpu is known; measured_peak(\"cpu\")"));
  std::optional<DType> asked;
  const ProfileReport by_bytes = profiler.report([&](Device device, DType dtype) {
    EXPECT_EQ(device, Device::cpu());
    asked = dtype;
    return RooflinePeak{100, 0};
  });
  EXPECT_EQ(asked, DType::f32);
  EXPECT_NEAR(by_bytes.rows[0].roofline_share, by_bytes.rows[0].gb_s / 100, 1e-12);
  EXPECT_TRUE(by_bytes.devices_without_peak.empty());
  const ProfileReport by_flops = profiler.report([](Device, DType) { return RooflinePeak{1e9, 1e-6}; });
  EXPECT_NEAR(by_flops.rows[0].roofline_share, by_flops.rows[0].tflop_s / 1e-6, 1e-6 * by_flops.rows[0].roofline_share);
}

TEST_F(ProfilerTest, WhatWasMeasuredIsKnown) {
  const MeasuredPeak& peak = measured_peak(Device::cpu());
  const MeasuredRate& matmul = measured_matmul_peak(Device::cpu(), DType::f32);
  EXPECT_EQ(find_measured_peak(Device::cpu()), &peak);
  EXPECT_EQ(find_measured_matmul_peak(Device::cpu(), DType::f32), &matmul);
  const RooflinePeak known = known_peak(Device::cpu(), DType::f32);
  const double stated_gb_s = device_info(Device::cpu()).peak_bandwidth_gb_s;
  EXPECT_EQ(known.bandwidth_gb_s, stated_gb_s > 0 ? stated_gb_s : peak.bandwidth_gb_s);
  EXPECT_EQ(known.tflop_s, matmul.tflop_s());
  EXPECT_EQ(known_peak(Device::cpu(), DType::f64).tflop_s, 0);
}

TEST_F(ProfilerTest, OneAtATimeStoppedOnce) {
  std::optional<Profiler> first(std::in_place);
  EXPECT_THAT(usage_message([] { Profiler second; }), HasSubstr("a profiler runs in this process already"));
  EXPECT_THAT(usage_message([&] { first->write_trace("/tmp/never.json"); }), HasSubstr("call stop() first"));
  first->stop();
  EXPECT_THAT(usage_message([&] { first->stop(); }), HasSubstr("stopped already"));
  EXPECT_EQ(first->report().rows.size(), 0u);
  EXPECT_EQ(first->report().rows.size(), 0u);  // as often as one likes
  // A stopped one that still lives is in nobody's way; one that goes out of scope stops by itself.
  {
    Profiler second;
  }
  Profiler third;
  first.reset();
  const Tensor a = random_f32({8}, Device::cpu());
  dispatch_gpu_op("neg", {a});
  EXPECT_EQ(third.report().rows.size(), 1u);
}

TEST_F(ProfilerTest, AFailedCallIsCountedApart) {
  const Tensor a = random_f32({8}, Device::cpu()), b = random_f32({9}, Device::cpu());
  dispatch_gpu_op("add", {a, a});
  Profiler profiler;
  EXPECT_THROW(dispatch_gpu_op("add", {a, b}), UsageError);
  EXPECT_THROW(dispatch_gpu_op("no_such_op", {a}), UsageError);
  dispatch_gpu_op("add", {a, a});
  const ProfileReport report = profiler.report();
  EXPECT_EQ(report.failed, 2u);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].count, 1u);
  EXPECT_THAT(to_string(report), HasSubstr("2 calls failed and are not counted"));
}

/// An op that no cache can know: its text holds a number of its own.
std::string register_new_op() {
  static int count = 0;
  const std::string op = "profiled_" + std::to_string(++count);
  const std::string text =
      "#include <kiln/tl.hpp>\nnamespace tl = kiln::tl;\n"
      "template <typename T, int BLOCK_SIZE>\n"
      "KILN_KERNEL void offset_kernel(const T* x, T* out, tl::int64_t n) {\n"
      "  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();\n"
      "  auto mask = offsets < n;\n"
      "  tl::store(out + offsets, tl::load(x + offsets, mask) + T(" +
      std::to_string(std::random_device{}()) + "), mask);\n}\n";
  register_elementwise_kernel({.name = op,
                               .doc = "",
                               .source = {op + ".hpp", text, {}},
                               .kernel = "offset_kernel",
                               .num_inputs = 1,
                               .dtypes = {DType::f32}});
  return op;
}

TEST_F(ProfilerTest, AColdCallCompilesAndAWarmOneDoesNot) {
  for (const Device device : devices_) {
    const std::string op = register_new_op();
    const Tensor a = random_f32({3001}, device);
    Profiler cold;
    dispatch_gpu_op(op, {a});
    const ProfileReport first = cold.report();
    const ProfileTotal* const total = total_of(first, op);
    ASSERT_NE(total, nullptr);
    EXPECT_GT(total->plan_us, 0);
    EXPECT_GT(total->compile_us, 0);
    EXPECT_GT(total->load_us, 0);
    EXPECT_EQ(total->tune_us, 0);
    EXPECT_EQ(first.plan_us, total->plan_us);
    EXPECT_EQ(first.compile_us, total->compile_us);
    EXPECT_EQ(first.load_us, total->load_us);
    // Cold work is no host overhead of the call.
    ASSERT_EQ(first.rows.size(), 1u);
    EXPECT_LT(first.rows[0].host_time.total_us + first.plan_us + first.compile_us + first.load_us, first.elapsed_us);
    Profiler warm;
    dispatch_gpu_op(op, {a});
    const ProfileReport second = warm.report();
    EXPECT_EQ(second.plan_us + second.compile_us + second.load_us + second.tune_us, 0);
    EXPECT_EQ(second.rows.at(0).count, 1u);
  }
}

TEST_F(ProfilerTest, TuningAtFirstUseIsApartFromTheCall) {
  const std::string op = register_new_op();
  const Tensor a = random_f32({3001}, devices_.front());
  ::setenv("KILN_TUNING_BUDGET", "1", 1);
  Profiler profiler;
  dispatch_gpu_op(op, {a}, {}, {.tuning = TuningPolicy::first_use});
  const ProfileReport report = profiler.report();
  ::unsetenv("KILN_TUNING_BUDGET");
  ASSERT_EQ(report.rows.size(), 1u) << to_string(report);
  EXPECT_EQ(report.rows[0].count, 1u);
  EXPECT_GT(report.tune_us, 0);
  EXPECT_LT(report.rows[0].host_time.total_us + report.plan_us + report.compile_us + report.load_us + report.tune_us,
            report.elapsed_us);
}

TEST_F(ProfilerTest, ATuningIsOnePhase) {
  const Tensor a = random_f32({301, 77}, Device::cpu());
  TuneOptions options;
  options.budget_s = 0.2;
  options.record = false;
  const std::vector<TensorView> inputs{a, a};
  Profiler profiler;
  tune_op("mul", inputs, {}, options);
  dispatch_gpu_op("mul", {a, a});
  const ProfileReport report = profiler.report();
  EXPECT_GT(report.tune_us, 0);
  EXPECT_EQ(total_of(report, "mul")->tune_us, report.tune_us);
  ASSERT_EQ(report.rows.size(), 1u) << to_string(report);  // what was measured is no call of the program's
  EXPECT_EQ(report.rows[0].count, 1u);
}

TEST_F(ProfilerTest, EveryThreadIsRecordedAndMayEndBefore) {
  constexpr int kThreads = 8, kCalls = 200;
  const Tensor a = random_f32({20, 30}, Device::cpu());
  dispatch_gpu_op("add", {a, a});
  Profiler profiler;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      const ProfilerRegion region(i % 2 == 0 ? "even" : "odd");
      for (int call = 0; call < kCalls; ++call) dispatch_gpu_op(call % 4 == 0 ? "mul" : "add", {a, a});
    });
  for (std::thread& thread : threads) thread.join();
  const ProfileReport report = profiler.report();
  EXPECT_EQ(report.threads, static_cast<std::size_t>(kThreads));
  EXPECT_EQ(total_of(report, "mul")->count, static_cast<std::size_t>(kThreads * kCalls / 4));
  EXPECT_EQ(total_of(report, "add")->count, static_cast<std::size_t>(kThreads * kCalls * 3 / 4));
  ASSERT_EQ(report.regions.size(), 2u);
  for (const ProfileRegionRow& region : report.regions) {
    EXPECT_EQ(region.time.count, static_cast<std::size_t>(kThreads / 2));
    EXPECT_EQ(region.calls, static_cast<std::size_t>(kThreads / 2 * kCalls));
  }
}

TEST_F(ProfilerTest, MayEndWhileOthersDispatch) {
  const Tensor a = random_f32({40}, Device::cpu());
  dispatch_gpu_op("add", {a, a});
  std::atomic<bool> is_over = false;
  std::atomic<int> started = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const ResolvedOp add = resolve("add", {a, a});
      const Tensor out = empty({40}, DType::f32, Device::cpu());
      ++started;
      while (!is_over) {
        const ProfilerRegion region("loop");
        add({a, a}, {out}, Stream::default_of(Device::cpu()));
        dispatch_gpu_op("add", {a, a});
      }
    });
  while (started < 4) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    Profiler profiler;
    for (int call = 0; call < 20; ++call) dispatch_gpu_op("add", {a, a});
    const ProfileReport report = profiler.report();
    EXPECT_GE(report.rows.at(0).count, 20u);
    EXPECT_EQ(report.failed, 0u);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ProfilerTest, DropsWhatIsBeyondTheLimitAndSaysSo) {
  const Tensor a = random_f32({6}, Device::cpu());
  for (const std::size_t limit : {0, 1, 100, 256, 300}) {
    Profiler profiler({.max_records = limit});
    for (int i = 0; i < 400; ++i) dispatch_gpu_op("add", {a, a});
    const ProfileReport report = profiler.report();
    EXPECT_EQ(report.dropped, 400 - limit);
    EXPECT_EQ(limit == 0 ? 0 : report.rows.at(0).count, limit);
    EXPECT_THAT(to_string(report), HasSubstr("records beyond ProfilerOptions::max_records are left out"));
  }
}

TEST_F(ProfilerTest, ThreadsWithAFewCallsLeaveRoomForOthers) {
  const Tensor a = random_f32({6}, Device::cpu());
  dispatch_gpu_op("add", {a, a});
  Profiler profiler({.max_records = 1000});
  for (int i = 0; i < 100; ++i) std::thread([&] { dispatch_gpu_op("add", {a, a}); }).join();
  const ProfileReport report = profiler.report();
  EXPECT_EQ(report.rows.at(0).count, 100u);
  EXPECT_EQ(report.dropped, 0u);
}

TEST_F(ProfilerTest, TheTableHoldsWhatItPromises) {
  const Tensor a = random_f32({12, 5}, Device::cpu());
  Profiler profiler;
  {
    const ProfilerRegion region("step");
    dispatch_gpu_op("add", {a, a});
  }
  const std::string text = to_string(profiler.report());
  for (const char* const word : {"profile of", "1 call on 1 thread", "add", "f32", "12x5, 12x5 -> 12x5", "BLOCK_SIZE=",
                                 "p50", "p99", "host mean", "GB/s", "TFLOP/s", "compiling", "tuning", "step"})
    EXPECT_THAT(text, HasSubstr(word));
}

TEST_F(ProfilerTest, GpuTimesAreBesideTheHosts) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  const Device device = Device::cuda(0);
  const OwnedStream stream(device);
  const Tensor large = random_f32({64, 1 << 20}, device), other = random_f32({64, 1 << 20}, device);
  const std::vector<Tensor> outs{empty({64, 1 << 20}, DType::f32, device)};
  const auto call = [&] { dispatch_gpu_op("add", {large, other}, {}, {.outputs = outs, .stream = stream.get()}); };
  synchronize(Stream::default_of(device));
  call();
  Profiler profiler;
  for (int i = 0; i < 20; ++i) call();
  const ProfileReport report = profiler.report();
  ASSERT_EQ(report.rows.size(), 1u);
  const ProfileRow& row = report.rows[0];
  EXPECT_EQ(row.device_time.count, 20u);
  // 768 MiB: no GPU moves them in less than 50 us, and no host needs that long to launch a kernel.
  EXPECT_GT(row.device_time.min_us, 50);
  EXPECT_GT(row.roofline_share, 0.3);
  EXPECT_LT(row.roofline_share, 1.2);  // the L2 cache keeps some of it from call to call

  Profiler host_only({.device_time = false});
  call();
  EXPECT_EQ(host_only.report().rows.at(0).device_time.count, 0u);
}

TEST_F(ProfilerTest, CapturedCallsHaveNoTimeAndGraphsDo) {
  for (const Device device : devices_) {
    const OwnedStream stream(device);
    const Tensor a = random_f32({1000, 100}, device);
    const std::vector<Tensor> outs{empty({1000, 100}, DType::f32, device)};
    const auto call = [&] { dispatch_gpu_op("add", {a, a}, {}, {.outputs = outs, .stream = stream.get()}); };
    synchronize(Stream::default_of(device));
    call();
    Profiler profiler;
    const Graph graph = capture(stream, [&] {
      call();
      call();
    });
    for (int i = 0; i < 3; ++i) graph.launch(stream);
    const ProfileReport report = profiler.report();
    ASSERT_EQ(report.rows.size(), 1u) << to_string(report);
    EXPECT_EQ(report.rows[0].count, 2u);
    EXPECT_EQ(report.rows[0].captured, 2u);
    EXPECT_EQ(report.rows[0].device_time.count, 0u);
    EXPECT_EQ(report.rows[0].host_time.count, 2u);
    EXPECT_EQ(report.graph_host_time.count, 3u);
    EXPECT_EQ(report.graph_device_time.count, 3u);
    EXPECT_GT(report.graph_device_time.min_us, 0);
    EXPECT_THAT(to_string(report), HasSubstr("2 (2 captured)"));
  }
}

TEST_F(ProfilerTest, ALongRunOnAGpuHasAllItsTimes) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  const Device device = Device::cuda(0);
  const OwnedStream first(device), second(device);
  const Tensor a = random_f32({256}, device);
  const Tensor out = empty({256}, DType::f32, device);
  synchronize(Stream::default_of(device));
  const ResolvedOp add = resolve("add", {a, a});
  constexpr std::size_t kCalls = 100'000;  // more events than wait to be read, and many of CUPTI's buffers
  for (const DeviceTimeSource source : {DeviceTimeSource::events, DeviceTimeSource::automatic}) {
    Profiler profiler({.device_time_source = source});
    for (std::size_t i = 0; i < kCalls; ++i) add({a, a}, {out}, i % 3 == 0 ? first.get() : second.get());
    const ProfileReport report = profiler.report();
    EXPECT_EQ(report.rows.at(0).count, kCalls);
    EXPECT_EQ(report.rows.at(0).device_time.count, kCalls) << report.device_timing;
    EXPECT_GT(report.rows.at(0).device_time.min_us, 0);
    EXPECT_EQ(report.untimed, 0u);
  }
}

}  // namespace
}  // namespace kiln::test
