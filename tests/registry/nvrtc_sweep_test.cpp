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
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

class NvrtcSweep : public ::testing::TestWithParam<std::string> {};

TEST_P(NvrtcSweep, CompilesWithoutSpilling) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get(GetParam());
  ASSERT_FALSE(spec.examples.empty());
  const std::vector<TensorView> views = views_of(spec.examples[0], Device::cuda(0));
  // Each op draws its own, so that a run meets all of them.
  std::mt19937_64 random(sweep_seed() ^ std::hash<std::string>{}(spec.name));
  for (const std::string& arch : swept_architectures(random)) {
    for (const CompileRequest& request :
         compile_requests(spec.name, views, spec.examples[0].attributes, parse_cuda_target(arch)))
      expect_no_spills(request);
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, NvrtcSweep, ::testing::ValuesIn(Registry::process().names()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(name.begin(), name.end(), [](char letter) { return letter == '.' || letter == ':'; }, '_');
  return name;
});

}  // namespace
}  // namespace kiln::test
