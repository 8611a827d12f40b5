// Compiles configs of matmul's sm_90a kernels with no GPU and refuses spills: a few of each form, other ones every
// time; KILN_SWEEP=full compiles all of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

struct Case {
  std::string name, variant;
  DType dtype;
  DType out;
  Dims a, b;
  bool a_transposed, b_transposed;  ///< stored the other way round
  bool full_addend;
  bool row_addend = false;
};

TensorView stored(const Dims& shape, DType dtype, bool transposed) {
  TensorView view = dense_view(nullptr, dtype, shape, Device::cuda(0));
  if (transposed) view.strides = {1, shape[0]};
  return view;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true}) {
      const std::string majors = std::string(a_transposed ? "T" : "N") + (b_transposed ? "T" : "N");
      all.push_back({"wide" + majors,
                     "sm90",
                     DType::bf16,
                     DType::bf16,
                     {1024, 512},
                     {512, 1024},
                     a_transposed,
                     b_transposed,
                     false});
    }
  all.push_back({"f32_out", "sm90", DType::f16, DType::f32, {1024, 512}, {512, 1024}, false, true, false});
  all.push_back({"odd_out", "sm90", DType::f16, DType::f16, {1024, 512}, {512, 1023}, false, true, false});
  all.push_back({"fp8", "sm90", DType::fp8e4m3, DType::bf16, {1024, 512}, {512, 1024}, false, true, false});
  all.push_back({"i8", "sm90", DType::i8, DType::i32, {1024, 512}, {512, 1024}, false, true, false});
  all.push_back({"bias", "sm90", DType::bf16, DType::bf16, {1024, 512}, {512, 1024}, false, true, false, true});
  all.push_back({"bias_of_f32", "sm90", DType::f16, DType::f32, {1024, 512}, {512, 1024}, false, false, false, true});
  all.push_back({"addend", "sm90_with_addend", DType::bf16, DType::bf16, {1024, 512}, {512, 1024}, false, false, true});
  all.push_back({"narrow", "sm90_narrow", DType::bf16, DType::bf16, {16, 512}, {512, 1024}, false, true, true});
  all.push_back({"narrow_n", "sm90_narrow", DType::bf16, DType::f32, {1024, 512}, {512, 16}, false, true, true});
  // Operands that lie along m or n and are loaded to registers.
  const auto loads = [&](const std::string& name, DType dtype, DType out) {
    all.push_back({name + "NN", "sm90", dtype, out, {1024, 512}, {512, 1024}, false, false, false});
    all.push_back({name + "NN_bias", "sm90", dtype, out, {1024, 512}, {512, 1024}, false, false, false, true});
    all.push_back({name + "TT", "sm90", dtype, out, {1024, 512}, {512, 1024}, true, true, false});
    all.push_back({name + "TT_odd_out", "sm90", dtype, out, {1024, 512}, {512, 1023}, true, true, false});
    all.push_back({name + "NN_addend", "sm90_with_addend", dtype, out, {1024, 512}, {512, 1024}, false, false, true});
    all.push_back({name + "TT_addend", "sm90_with_addend", dtype, out, {1024, 512}, {512, 1024}, true, true, true});
    all.push_back({name + "NN_narrow", "sm90_narrow", dtype, out, {16, 512}, {512, 1024}, false, false, true});
    all.push_back({name + "TT_narrow_n", "sm90_narrow", dtype, out, {1024, 512}, {512, 16}, true, true, true});
  };
  loads("tf32", DType::f32, DType::f32);
  loads("fp8", DType::fp8e4m3, DType::bf16);
  loads("i8", DType::i8, DType::i32);
  return all;
}

class MatmulSm90Configs : public ::testing::TestWithParam<Case> {};

TEST_P(MatmulSm90Configs, CompileWithoutSpilling) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const Case& c = GetParam();
  const OpSpec& spec = Registry::process().get("matmul");
  const Target target = parse_cuda_target("sm_90a");
  std::vector<TensorView> inputs = {stored(c.a, c.dtype, c.a_transposed), stored(c.b, c.dtype, c.b_transposed)};
  const Dims shape{c.a[0], c.b[1]};
  if (c.row_addend) inputs.push_back(dense_view(nullptr, c.out, {c.b[1]}, Device::cuda(0)));
  if (c.full_addend) inputs.push_back(dense_view(nullptr, c.out, shape, Device::cuda(0)));
  const TensorView out = dense_view(nullptr, c.out, shape, Device::cuda(0));
  const Attributes attributes = {{"alpha", 1.0},
                                 {"beta", 1.0},
                                 {"out_dtype", c.out},
                                 {"precision", std::string(c.dtype == DType::f32 ? "tf32" : "ieee")},
                                 {"num_sms", std::int64_t{0}}};
  const OpCall call{inputs, std::span(&out, 1), attributes};
  const auto serving = std::find_if(spec.variants.begin(), spec.variants.end(),
                                    [&](const Variant& variant) { return variant.name == c.variant; });
  ASSERT_NE(serving, spec.variants.end());
  ASSERT_TRUE(serving->serves(call, target));

  // The number of stages, the least share and the order of tiles change nothing in the code.
  std::vector<Config> distinct;
  std::set<std::string> seen;
  for (const Config& config : serving->space(target).enumerate()) {
    Config code = config;
    code.set("NUM_STAGES", 0);
    code.set("GROUP_M", 0);
    code.set("K_SHARE", std::min<std::int64_t>(config.at("K_SHARE"), 1));
    if (seen.insert(to_string(code)).second) distinct.push_back(config);
  }
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(sweep_seed()));
  std::mt19937_64 random(sweep_seed());
  std::shuffle(distinct.begin(), distinct.end(), random);
  const std::size_t few = sweep_amount() == SweepAmount::part ? 1 : 2;
  if (sweep_amount() != SweepAmount::full) distinct.resize(std::min(distinct.size(), few));
  for (const Config& config : distinct) {
    const LaunchPlan plan = serving->plan(call, config, target);
    for (const KernelLaunch& launch : plan.launches)
      expect_no_spills({.op = spec.name,
                        .configuration = to_string(config),
                        .source = serving->source,
                        .kernel = launch.kernel.empty() ? serving->kernel : launch.kernel,
                        .template_arguments = launch.template_arguments,
                        .num_parameters = launch.arguments.size(),
                        .num_warps = launch.geometry.num_warps,
                        .target = target});
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, MatmulSm90Configs, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace kiln::test
