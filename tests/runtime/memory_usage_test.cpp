#include "runtime/memory_usage.hpp"

#include <cstring>

#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(MemoryUsageTest, ResidentMemoryGrowsWithWhatIsWritten) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  const MemoryUsage before = memory_usage(Device::cpu());
  EXPECT_GT(before.used_bytes, 0);
  EXPECT_GT(before.free_bytes, 0);
  EXPECT_LT(before.used_bytes, before.total_bytes);
  EXPECT_LE(before.free_bytes, before.total_bytes);
  const Tensor block = empty({kBytes}, DType::u8, Device::cpu());
  std::memset(block.data(), 1, static_cast<std::size_t>(kBytes));
  EXPECT_GE(memory_usage(Device::cpu()).used_bytes, before.used_bytes + kBytes / 2);
  EXPECT_THAT(to_string(before, Device::cpu()), HasSubstr("in use by this process"));
}

TEST(MemoryUsageTest, ADeviceThatIsNotThereIsRefused) {
  EXPECT_THROW(memory_usage(Device::cuda(4096)), UsageError);
  EXPECT_THROW(last_level_cache_bytes(Device::cuda(4096)), UsageError);
}

TEST(MemoryUsageTest, TheCpuHasCaches) {
  EXPECT_GE(last_level_cache_bytes(Device::cpu()), std::int64_t{64} << 10);
}

TEST(MemoryUsageTest, AnAllocationOnAGpuShows) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  const Tensor first = empty({16}, DType::u8, Device::cuda());
  const MemoryUsage before = memory_usage(Device::cuda());
  const Tensor block = empty({kBytes}, DType::u8, Device::cuda());
  synchronize(Stream::default_of(Device::cuda()));
  const MemoryUsage after = memory_usage(Device::cuda());
  EXPECT_EQ(after.total_bytes, device_info(Device::cuda()).memory_bytes);
  EXPECT_GE(after.pool_used_bytes, before.pool_used_bytes + kBytes);
  EXPECT_GE(after.pool_reserved_bytes, after.pool_used_bytes);
  EXPECT_GE(after.used_bytes, after.pool_reserved_bytes);
  EXPECT_EQ(last_level_cache_bytes(Device::cuda()), device_info(Device::cuda()).l2_bytes);
}

}  // namespace
}  // namespace kiln::test
