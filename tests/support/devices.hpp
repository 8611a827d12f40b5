#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "runtime/device_info.hpp"
#include "runtime/transfer/pinned_pool.hpp"

namespace kiln::test {

/// Devices that this build and machine can compile for and run on.
inline std::vector<Device> available_devices() {
  std::vector<Device> devices;
  if (compiler_problem(DeviceType::cpu).empty()) devices.push_back(Device::cpu());
  if (compiler_problem(DeviceType::cuda).empty())
    for (int i = 0; i < device_count(DeviceType::cuda); ++i) devices.push_back(Device::cuda(i));
  return devices;
}

/// The CPU where this build compiles for it, and the first GPU where there is one.
inline std::vector<Device> devices_with_compilers() {
  std::vector<Device> devices;
  if (compiler_problem(DeviceType::cpu).empty()) devices.push_back(Device::cpu());
  if (device_count(DeviceType::cuda) > 0) devices.push_back(Device::cuda());
  return devices;
}

/// Of the first GPU, for the whole process: tensors in tests come and go.
inline PinnedPool& pinned_pool() {
  static auto* const pool = new PinnedPool(Device::cuda(0));
  return *pool;
}

/// Tests on every device there is.
class DevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    devices_ = available_devices();
    if (devices_.empty())
      GTEST_SKIP() << "no target: " << compiler_problem(DeviceType::cpu) << "; " << device_problem(DeviceType::cuda);
  }
  std::vector<Device> devices_;
};

/// Tests on the first GPU, which need no compiler.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  }
  static constexpr Device kDevice = Device::cuda(0);
};

/// Tests that compile kernels and run them on the first GPU.
class GpuKernelTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string problem = compiler_problem(DeviceType::cuda); !problem.empty()) GTEST_SKIP() << problem;
  }
};

}  // namespace kiln::test
