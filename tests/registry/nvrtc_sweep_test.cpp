// Compiles every op for the architectures that matter, with no GPU, and refuses spills. The everyday run takes one
// architecture for each op (tests/support/sweep_amount.hpp).

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "compiler/compiler.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

class NvrtcSweep : public ::testing::TestWithParam<std::string> {};

/// The op's first example over f32 where it has that, its own dtypes otherwise.
[[maybe_unused]] std::vector<TensorView> example_views(const Example& example) {
  std::vector<TensorView> views;
  for (const TensorMeta& meta : example.inputs)
    views.push_back(dense_view(nullptr, meta.dtype, meta.shape, Device::cuda(0)));
  return views;
}

TEST_P(NvrtcSweep, CompilesWithoutSpilling) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get(GetParam());
  ASSERT_FALSE(spec.examples.empty());
  const std::vector<TensorView> views = example_views(spec.examples[0]);
  // Each op draws its own, so that a run meets all of them.
  std::mt19937_64 random(sweep_seed() ^ std::hash<std::string>{}(spec.name));
  for (const std::string& arch : swept_architectures(random)) {
    for (const CompileRequest& request :
         compile_requests(spec.name, views, spec.examples[0].attributes, parse_cuda_target(arch))) {
      SCOPED_TRACE(instance_name(request) + " for " + arch + ", " + request.configuration);
      const PtxasReport report = ptxas_report(request);
      EXPECT_EQ(report.spill_store_bytes, 0);
      EXPECT_EQ(report.spill_load_bytes, 0);
      EXPECT_GT(report.registers, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, NvrtcSweep, ::testing::ValuesIn(Registry::process().names()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(name.begin(), name.end(), [](char letter) { return letter == '.' || letter == ':'; }, '_');
  return name;
});

}  // namespace
}  // namespace kiln::test
