// Compiles configs of matmul's spaces for the architectures that matter, with no GPU, and refuses spills. One of each
// space, another one every time, and in the everyday run for one architecture; KILN_SWEEP=full compiles all of them,
// which takes twenty minutes of one core.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/planned_call.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

class MatmulConfigs : public ::testing::TestWithParam<std::string> {};

/// Those that ask for a kernel of their own: how k is split changes nothing in it.
std::vector<Config> distinct_configs(const ConfigSpace& space) {
  std::vector<Config> configs = space.enumerate();
  std::erase_if(configs, [](const Config& config) { return config.at("SPLIT_K") != 1; });
  return configs;
}

void check_no_spills(const OpSpec& spec, const Variant& variant, const OpCall& call, const Config& config,
                     const Target& target) {
  const LaunchPlan plan = variant.plan(call, config, target);
  ASSERT_EQ(plan.launches.size(), 1u);
  expect_no_spills(requests_of(spec, variant, plan, config, target)[0]);
}

TEST_P(MatmulConfigs, CompileWithoutSpilling) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const bool tf32 = GetParam() == "tf32";
  const DType dtype = tf32 ? DType::f32 : parse_dtype(GetParam());
  const OpSpec& spec = Registry::process().get("linear");
  const Attributes attributes = {{"activation", std::string("gelu")},
                                 {"num_sms", std::int64_t{0}},
                                 {"out_dtype", dtype == DType::f64 ? DType::f64 : DType::f32},
                                 {"precision", std::string(tf32 ? "tf32" : "ieee")}};
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(sweep_seed()));
  std::mt19937_64 random(sweep_seed());
  for (const std::string& arch : swept_architectures(random))
    for (const std::int64_t rows : {4, 1000}) {
      std::vector<TensorView> inputs = {dense_view(nullptr, dtype, {rows, 1024}, Device::cuda(0)),
                                        dense_view(nullptr, dtype, {1024, 1024}, Device::cuda(0))};
      if (dtype != DType::f64) inputs.push_back(dense_view(nullptr, DType::f32, {1024}, Device::cuda(0)));
      const TensorMeta meta = spec.infer(inputs, attributes).at(0);
      const TensorView out = dense_view(nullptr, meta.dtype, meta.shape, Device::cuda(0));
      const OpCall call{inputs, std::span(&out, 1), attributes};
      const Target target = parse_cuda_target(arch);
      for (const Variant& variant : spec.variants) {
        if (!variant.name.starts_with(rows == 4 ? "rows" : "tile") || !variant.serves(call, target)) continue;
        std::vector<Config> configs = distinct_configs(variant.space(target));
        std::shuffle(configs.begin(), configs.end(), random);
        if (sweep_amount() != SweepAmount::full) configs.resize(std::min<std::size_t>(configs.size(), 1));
        for (const Config& config : configs) check_no_spills(spec, variant, call, config, target);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Operands, MatmulConfigs, ::testing::Values("f64", "f32", "tf32", "bf16", "fp8e4m3", "i8"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace kiln::test
