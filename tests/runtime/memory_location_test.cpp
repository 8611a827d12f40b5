#include "runtime/memory_location.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_pool.hpp"

namespace kiln::test {
namespace {

TEST(GpuOfMemory, AddressesOfNoGpu) {
  std::vector<float> values(4);
  EXPECT_FALSE(gpu_of_memory(values.data()));
  EXPECT_FALSE(gpu_of_memory(nullptr));
  EXPECT_FALSE(gpu_of_memory(reinterpret_cast<const void*>(4096)));
}

TEST(GpuOfMemory, MemoryOfEachGpu) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  for (int ordinal = 0; ordinal < device_count(DeviceType::cuda); ++ordinal) {
    const Tensor tensor = empty({1000}, DType::f32, Device::cuda(ordinal));
    EXPECT_EQ(gpu_of_memory(tensor.data()), Device::cuda(ordinal));
    EXPECT_EQ(gpu_of_memory(tensor.data_as<float>() + 999), Device::cuda(ordinal));
  }
  PinnedPool pool(Device::cuda());
  EXPECT_FALSE(gpu_of_memory(pool.empty({4}, DType::f32).data())) << "page-locked memory is the host's";
}

}  // namespace
}  // namespace kiln::test
