// A trace, read back as Perfetto's SQL would see it.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/profiling/profiler.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using nlohmann::json;

class ProfileTraceTest : public DevicesTest {
 protected:
  json trace_of(const Profiler& profiler) {
    const std::string path = directory_.file("trace.json");
    profiler.write_trace(path);
    return json::parse(std::ifstream(path));
  }
  TemporaryDirectory directory_;
};

struct Aggregate {
  std::size_t count = 0;
  double sum_us = 0;
};
/// SELECT name, count(*), sum(dur) FROM slice WHERE category = `category` GROUP BY name
std::map<std::string, Aggregate> aggregate(const json& trace, const std::string& category) {
  std::map<std::string, Aggregate> groups;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != category) continue;
    Aggregate& group = groups[event.at("name").get<std::string>()];
    ++group.count;
    group.sum_us += event.at("dur").get<double>();
  }
  return groups;
}

/// Slices of one line must be apart or one inside the other, or viewers drop them.
void expect_nested(const json& trace) {
  struct Slice {
    double start, end;
  };
  std::map<std::pair<int, int>, std::vector<Slice>> lines;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double start = event.at("ts"), duration = event.at("dur");
    EXPECT_GE(start, 0);
    EXPECT_GE(duration, 0);
    lines[{event.at("pid"), event.at("tid")}].push_back({start, start + duration});
  }
  constexpr double kRounding = 1e-4;  // of decimal fractions; slices are whole nanoseconds
  for (auto& [line, slices] : lines) {
    std::sort(slices.begin(), slices.end(),
              [](const Slice& a, const Slice& b) { return a.start != b.start ? a.start < b.start : a.end > b.end; });
    std::vector<double> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back() <= slice.start + kRounding) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(slice.end, open.back() + kRounding);
      }
      open.push_back(slice.end);
    }
  }
}

TEST_F(ProfileTraceTest, AddsUpToTheReport) {
  for (const Device device : devices_) {
    const Tensor a = make_f32({300, 40}, std::vector<float>(12000, 1.5f), device), b = make_f32({40}, {}, device);
    Profiler profiler;
    std::thread other([&] {
      const ProfilerRegion region("in \"another\" thread\n");
      for (int i = 0; i < 11; ++i) dispatch_gpu_op("mul", {a, a});
    });
    {
      const ProfilerRegion outer("outer");
      const ProfilerRegion inner("inner");
      for (int i = 0; i < 9; ++i) dispatch_gpu_op("add", {a, b});
      for (int i = 0; i < 5; ++i) dispatch_gpu_op("add", {a, a});
    }
    other.join();
    const ProfileReport report = profiler.report();
    const json trace = trace_of(profiler);
    EXPECT_EQ(trace.at("displayTimeUnit"), "ns");
    expect_nested(trace);

    const auto kernels = aggregate(trace, "kernel"), dispatches = aggregate(trace, "dispatch");
    EXPECT_EQ(kernels.size(), report.ops.size());
    for (const ProfileTotal& op : report.ops) {
      EXPECT_EQ(kernels.at(op.op).count, op.count);
      EXPECT_EQ(dispatches.at(op.op).count, op.count);
      EXPECT_NEAR(kernels.at(op.op).sum_us, op.device_us, 1e-3 * static_cast<double>(op.count));
      EXPECT_GE(dispatches.at(op.op).sum_us, op.host_us);
    }
    const auto regions = aggregate(trace, "region");
    EXPECT_EQ(regions.at("in \"another\" thread\n").count, 1u);
    EXPECT_EQ(regions.at("inner").count, 1u);
    EXPECT_GE(regions.at("outer").sum_us, regions.at("inner").sum_us);

    std::map<std::string, int> shapes;
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X" || event.at("cat") != "kernel") continue;
      const json& args = event.at("args");
      EXPECT_EQ(args.at("op"), event.at("name"));
      EXPECT_EQ(args.at("dtype"), "f32");
      EXPECT_GT(args.at("bytes"), 0);
      EXPECT_TRUE(args.contains("config") && args.contains("variant") && args.contains("flops"));
      EXPECT_EQ(args.at("region"), event.at("name") == "add" ? "outer/inner" : "in \"another\" thread\n");
      ++shapes[args.at("shape").get<std::string>()];
    }
    EXPECT_EQ(shapes, (std::map<std::string, int>{{"300x40, 40 -> 300x40", 9}, {"300x40, 300x40 -> 300x40", 16}}));
  }
}

TEST_F(ProfileTraceTest, ShowsWhatAFirstCallDoes) {
  const Config config = parse_config("BLOCK_SIZE=64");
  const Tensor a = make_f32({999}, {}, Device::cpu());
  Profiler profiler;
  dispatch_gpu_op("pow", {a, a}, {}, {.config = &config});
  profiler.stop();
  const json trace = trace_of(profiler);
  expect_nested(trace);
  EXPECT_EQ(aggregate(trace, "plan").at("pow").count, 1u);
  EXPECT_EQ(aggregate(trace, "compile")["pow"].count + aggregate(trace, "load")["pow"].count, 2u);
  EXPECT_GT(aggregate(trace, "plan").at("pow").sum_us, aggregate(trace, "load").at("pow").sum_us);
}

TEST_F(ProfileTraceTest, ACostThatIsNoNumberIsNull) {
  OpSpec spec = Registry::process().get("neg");
  spec.name = "trace_odd_cost";
  spec.cost = [](const OpCall&) { return Cost{std::nan(""), std::numeric_limits<double>::infinity()}; };
  Registry::process().register_op(spec);
  const Tensor a = make_f32({10}, {}, Device::cpu());
  Profiler profiler;
  dispatch_gpu_op("trace_odd_cost", {a});
  profiler.stop();
  const json trace = trace_of(profiler);
  EXPECT_EQ(aggregate(trace, "kernel").at("trace_odd_cost").count, 1u);
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") != "trace_odd_cost" || event.at("cat") != "kernel") continue;
    EXPECT_TRUE(event.at("args").at("flops").is_null());
    EXPECT_TRUE(event.at("args").at("bytes").is_null());
  }
}

TEST_F(ProfileTraceTest, NamesItsLines) {
  const Tensor a = make_f32({10}, {}, devices_.back());
  Profiler profiler;
  std::thread worker([&] {
    ::pthread_setname_np(::pthread_self(), "worker-7");
    dispatch_gpu_op("add", {a, a});
  });
  worker.join();
  profiler.stop();
  std::vector<std::string> names;
  const json trace = trace_of(profiler);
  for (const json& event : trace.at("traceEvents"))
    if (event.at("ph") == "M") names.push_back(event.at("args").at("name"));
  EXPECT_THAT(names, Contains("worker-7"));
  if (devices_.back().is_cuda()) {
    EXPECT_THAT(names, Contains("default stream"));
  }
}

TEST_F(ProfileTraceTest, WithNothingInItIsATrace) {
  Profiler profiler;
  profiler.stop();
  EXPECT_TRUE(trace_of(profiler).at("traceEvents").is_array());
}

TEST_F(ProfileTraceTest, ReplacesAFileAsAWholeOrNotAtAll) {
  Profiler profiler;
  profiler.stop();
  EXPECT_THROW(profiler.write_trace(directory_.file("absent/trace.json")), SystemError);
  EXPECT_THROW(profiler.write_trace(directory_.path().string()), SystemError);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  const std::string path = directory_.file("trace.json");
  std::ofstream(path) << "old";
  profiler.write_trace(path);
  EXPECT_TRUE(json::parse(std::ifstream(path)).is_object());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

}  // namespace
}  // namespace kiln::test
