// Which variant a call takes, and that every kernel of the family compiles for GPUs without spilling.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "tests/support/host_tensor.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

/// A call whose tensors have `shape` and `strides`.
struct Call {
  const OpSpec& spec;
  Attributes attributes;
  std::vector<TensorView> outputs, inputs;

  Call(const std::string& op, DType dtype, const Dims& shape, const Dims& strides, const Attributes& given = {})
      : spec(spec_of(op)), attributes(given) {
    attributes.set("seed", std::int64_t{1});
    if (op == "randint" && attributes.find("high") == nullptr) attributes.set("high", std::int64_t{2});
    attributes = with_defaults(spec, attributes);
    TensorView view = dense_view(nullptr, dtype, shape, Device::cuda(0));
    view.strides = strides;
    outputs = {view};
    if (!spec.inputs.empty()) inputs = {view};
  }
  OpCall view() const { return {inputs, outputs, attributes}; }
  const Variant& variant(const Target& target) const {
    return spec.variants.front().serves(view(), target) ? spec.variants.front() : spec.variants.back();
  }
};

TEST(RandomLaunchTest, RowMajorRunsAreContiguous) {
  const Target& target = kHopper;
  const auto chosen = [&](const Dims& shape, const Dims& strides) {
    return Call("uniform", DType::f32, shape, strides).variant(target).name;
  };
  EXPECT_EQ(chosen({4, 5}, {5, 1}), "contiguous");
  EXPECT_EQ(chosen({}, {}), "contiguous");
  EXPECT_EQ(chosen({4, 1, 5}, {5, 77, 1}), "contiguous");
  EXPECT_EQ(chosen({4, 5}, {1, 4}), "strided");  // dense, but another order
  EXPECT_EQ(chosen({4, 5}, {6, 1}), "strided");
  EXPECT_EQ(chosen({5}, {-1}), "strided");
}

TEST(RandomLaunchTest, LargeTensorsTakeWideIndices) {
  const Target& target = kHopper;
  const auto index_of = [&](std::int64_t rows) {
    const Call call("bernoulli", DType::u8, {rows, std::int64_t{1} << 16}, {std::int64_t{1} << 17, 1});
    const Variant& variant = call.variant(target);
    const LaunchPlan plan = variant.plan(call.view(), variant.default_config(call.view(), target), target);
    return std::get<DType>(plan.launches.at(0).template_arguments.at(2));
  };
  EXPECT_EQ(index_of(1 << 14), DType::u32);
  EXPECT_EQ(index_of(1 << 15), DType::u64);
}

TEST(RandomLaunchTest, EveryKernelCompilesForGpusWithoutSpilling) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const Target& target = kHopper;
  const Attributes wide{{"high", std::int64_t{1} << 40}};
  const std::vector<Call> calls = {
      {"uniform", DType::f32, {64, 64}, {64, 1}},       {"uniform", DType::f64, {64, 64}, {1, 64}},
      {"uniform", DType::bf16, {64, 64}, {64, 1}},      {"normal", DType::f32, {64, 64}, {1, 64}},
      {"normal", DType::f64, {64, 64}, {64, 1}},        {"normal", DType::f16, {64, 64}, {64, 1}},
      {"randint", DType::i64, {64, 64}, {64, 1}},       {"randint", DType::u8, {64, 64}, {1, 64}},
      {"randint", DType::i64, {64, 64}, {64, 1}, wide}, {"bernoulli", DType::fp8e4m3, {64, 64}, {64, 1}},
      {"bernoulli", DType::bool_, {64, 64}, {64, 1}},   {"dropout", DType::bf16, {64, 64}, {64, 1}},
      {"dropout", DType::f64, {64, 64}, {1, 64}},
  };
  for (const Call& call : calls) {
    const Variant& variant = call.variant(target);
    const Config config = variant.default_config(call.view(), target);
    EXPECT_NO_THROW(variant.space(target).validate(config));
    const LaunchPlan plan = variant.plan(call.view(), config, target);
    for (const CompileRequest& request : requests_of(call.spec, variant, plan, config, target)) {
      const PtxasReport report = expect_no_spills(request);
      EXPECT_EQ(report.stack_bytes, 0) << instance_name(request);
      EXPECT_LE(report.registers, 64) << instance_name(request);
    }
  }
}

}  // namespace
}  // namespace kiln::test
