// Regions of a profile: how they nest, what they add up, and how many there may be.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/profiling/profiler.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ProfilerRegions = DevicesTest;

TEST_F(ProfilerRegions, NestAndAddUpTheirCalls) {
  const Tensor a = make_f32({50, 50}, std::vector<float>(2500, 1.5F));
  dispatch_gpu_op("add", {a, a});
  {
    const ProfilerRegion nobody_listens("outside");
  }
  Profiler profiler;
  for (int step = 0; step < 4; ++step) {
    const ProfilerRegion decode("decode");
    dispatch_gpu_op("add", {a, a});
    for (int layer = 0; layer < 3; ++layer) {
      const ProfilerRegion attention("attention");
      dispatch_gpu_op("add", {a, a});
      dispatch_gpu_op("mul", {a, a});
    }
  }
  {
    const ProfilerRegion attention("attention");  // another one: not in decode
  }
  const ProfileReport report = profiler.report();
  ASSERT_EQ(report.regions.size(), 3u) << to_string(report);
  const ProfileRegionRow &decode = report.regions[0], &inner = report.regions[1], &outer = report.regions[2];
  EXPECT_EQ(decode.path, "decode");
  EXPECT_EQ(inner.path, "decode/attention");
  EXPECT_EQ(outer.path, "attention");
  EXPECT_EQ(decode.time.count, 4u);
  EXPECT_EQ(inner.time.count, 12u);
  EXPECT_EQ(outer.time.count, 1u);
  EXPECT_EQ(decode.calls, 28u);
  EXPECT_EQ(inner.calls, 24u);
  EXPECT_EQ(outer.calls, 0u);
  EXPECT_GE(decode.time.total_us, inner.time.total_us);
  EXPECT_GE(decode.device_us, inner.device_us);
  ASSERT_EQ(report.ops.size(), 2u) << to_string(report);
  EXPECT_NEAR(decode.device_us, report.ops[0].device_us + report.ops[1].device_us, 1e-6);
}

TEST_F(ProfilerRegions, NamedAtRunTimeHaveALimit) {
  Profiler profiler({.max_records = 101});
  const ProfilerRegion all("all");
  for (int i = 0; i < 1000; ++i) {
    const ProfilerRegion step("step " + std::to_string(i));
  }
  const ProfileReport report = profiler.report();
  ASSERT_EQ(report.regions.size(), 51u);  // each step is a name and a time
  EXPECT_EQ(report.dropped, 950u);
  EXPECT_EQ(report.regions.at(50).path, "all/step 49");
}

TEST_F(ProfilerRegions, OfManyNamesTakeNoTimeToFind) {
  Profiler profiler;
  for (int i = 0; i < 100'000; ++i) {
    const ProfilerRegion step("step " + std::to_string(i));
  }
  EXPECT_EQ(profiler.report().regions.size(), 100'000u);
}

TEST_F(ProfilerRegions, OneThatOutlivesItsProfilerHarmsNothing) {
  const Tensor a = make_f32(std::vector<float>(5, 1.5F));
  std::optional<Profiler> first(std::in_place);
  {
    const ProfilerRegion region("left open");
    first.reset();
    Profiler second;
    dispatch_gpu_op("neg", {a});
    const ProfileReport report = second.report();
    EXPECT_TRUE(report.regions.empty());
  }
  Profiler third;
  dispatch_gpu_op("neg", {a});
  EXPECT_TRUE(third.report().regions.empty());
}

}  // namespace
}  // namespace kiln::test
