// Compiles attention's default configs for GPUs, with no GPU at hand: nothing spills, and on sm_90a the copy engine can
// fetch keys and values and no product waits for the one before it.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/box_loads.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/launched_kernel.hpp"

namespace kiln::test {
namespace {

class AttentionNvrtc : public ::testing::TestWithParam<std::string> {};

TEST_P(AttentionNvrtc, DefaultsDoNotSpill) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get("attention");
  for (const std::int64_t dim : {64, 128, 256})
    for (const char* causal : {"none", "bottom_right"}) {
      const Dims shape = {2, 1024, 4, dim};
      const Example example{{{DType::bf16, shape}, {DType::bf16, shape}, {DType::bf16, shape}},
                            {{"causal", std::string(causal)}}};
      const std::vector<LaunchedKernel> kernels = kernels_of_all_variants(spec, example, parse_cuda_target(GetParam()));
      ASSERT_EQ(kernels.size(), 1U);
      const PtxasReport report = expect_no_spills(kernels[0].request);
      if (GetParam() != "sm_90a") continue;
      EXPECT_FALSE(report.serializes_products) << dim << " " << causal;
      const std::size_t entry = report.ptx.find(".entry ") + 7;
      const std::string name = report.ptx.substr(entry, report.ptx.find('(', entry) - entry);
      EXPECT_EQ(box_loads(report.ptx, name).size(), 2U) << dim << " " << causal;
    }
}

INSTANTIATE_TEST_SUITE_P(Gpus, AttentionNvrtc, ::testing::Values("sm_80", "sm_89", "sm_90a"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace kiln::test
