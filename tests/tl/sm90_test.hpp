#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::testing {

/// Tests that run kernels on a GPU of sm_90; skipped elsewhere.
class Sm90Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
    if (const std::string problem = compiler_problem(DeviceType::cuda); !problem.empty()) GTEST_SKIP() << problem;
    const std::string& arch = device_info(Device::cuda()).target.arch;
    if (arch != "sm_90a") GTEST_SKIP() << "the GPU is " << arch << ", the kernels are for sm_90a";
  }
};

/// What a machine without such a GPU can say of the kernels: that each compiles, and that its values stay in registers.
inline void expect_compiled_to_registers([[maybe_unused]] const std::vector<TextKernel>& kernels) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  for (const TextKernel& kernel : kernels) {
    const CompileRequest request = kernel.request(parse_cuda_target("sm_90a"));
    const PtxasReport report = ptxas_report(request);
    EXPECT_GT(report.registers, 0) << instance_name(request);
    EXPECT_EQ(report.stack_bytes + report.spill_store_bytes + report.spill_load_bytes, 0) << instance_name(request);
  }
}

}  // namespace kiln::testing
