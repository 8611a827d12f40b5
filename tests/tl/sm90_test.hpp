#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {

/// Tests that run kernels on a GPU of sm_90; skipped elsewhere.
class Sm90Test : public GpuKernelTest {
 protected:
  void SetUp() override {
    GpuKernelTest::SetUp();
    if (IsSkipped()) return;
    const std::string& arch = device_info(kDevice).target.arch;
    if (arch != "sm_90a") GTEST_SKIP() << "the GPU is " << arch << ", the kernels are for sm_90a";
  }
  std::vector<std::uint8_t> random_bytes(std::int64_t count) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random_());
    return bytes;
  }
  std::vector<std::uint32_t> random_words(std::int64_t count) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(count));
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random_());
    return words;
  }
  std::mt19937 random_{20261120};
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

}  // namespace kiln::test
