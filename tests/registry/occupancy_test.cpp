// How many programs a multiprocessor holds. Expected values are those of cuda_occupancy.h of the CUDA toolkit 13.0.

#include "registry/inspection/occupancy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kiln::test {
namespace {

Target gpu(const std::string& arch) {
  return {DeviceType::cuda, arch, ""};
}

TEST(OccupancyTest, KnownValues) {
  using Strings = std::vector<std::string>;
  struct Case {
    std::string arch;
    ProgramResources resources;  // threads, registers for each, bytes of shared memory
    std::int32_t programs;
    Strings limited_by;
  };
  const std::vector<Case> cases = {
      {"sm_80", {256, 32, 0}, 8, {"registers", "threads"}},
      {"sm_80", {128, 128, 40960}, 4, {"registers", "shared memory"}},
      {"sm_89", {128, 64, 0}, 8, {"registers"}},
      {"sm_89", {32, 16, 0}, 24, {"programs"}},
      {"sm_90a", {128, 168, 0}, 3, {"registers"}},
      {"sm_90a", {384, 168, 230000}, 1, {"registers", "shared memory"}},
      {"sm_90", {1024, 32, 0}, 2, {"registers", "threads"}},
      {"sm_100a", {256, 255, 0}, 1, {"registers"}},
      {"sm_100a", {64, 40, 20000}, 11, {"shared memory"}},
      {"sm_120a", {256, 40, 0}, 6, {"registers", "threads"}},
      {"sm_120a", {128, 24, 50000}, 2, {"shared memory"}},
      // What does not fit at all.
      {"sm_89", {128, 32, 100 * 1024}, 0, {"shared memory"}},
      {"sm_90a", {128, 32, 227 * 1024}, 1, {"shared memory"}},
      {"sm_90a", {128, 32, 227 * 1024 + 1}, 0, {"shared memory"}},
      {"sm_80", {1024, 72, 0}, 0, {"registers"}},
      {"sm_80", {1056, 16, 0}, 0, {"threads"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.arch + " with " + std::to_string(c.resources.threads) + " threads");
    const auto found = occupancy(gpu(c.arch), c.resources);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->programs, c.programs);
    EXPECT_EQ(found->limited_by, c.limited_by);
    EXPECT_EQ(found->warps, c.programs * ((c.resources.threads + 31) / 32));
    EXPECT_LE(found->share, 1);
  }
}

TEST(OccupancyTest, ReadsAsASentence) {
  const Target target = gpu("sm_90a");
  EXPECT_EQ(to_string(*occupancy(target, {128, 168, 0}), *multiprocessor_limits(target)),
            "3 programs, 12 of 64 warps (19%); limited by registers");
}

TEST(OccupancyTest, AnUnknownArchitectureHasNone) {
  for (const char* const arch : {"sm_75", "sm_99", "sm_", "", "znver5"}) {
    EXPECT_FALSE(multiprocessor_limits(gpu(arch))) << arch;
    EXPECT_FALSE(occupancy(gpu(arch), {128, 32, 0})) << arch;
  }
  EXPECT_FALSE(multiprocessor_limits({DeviceType::cpu, "sm_90a", ""}));
  EXPECT_FALSE(occupancy(gpu("sm_90a"), {0, 32, 0})) << "no threads";
}

}  // namespace
}  // namespace kiln::test
