// An op whose plan launches two kernels that share scratch memory.

#include <cmath>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

constexpr const char* kSource = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <int BLOCK_SIZE>
KILN_KERNEL void partial_sums(const float* x, float* partials, float* squares, tl::int64_t n) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto values = tl::load(x + offsets, offsets < n);
  tl::store(partials + tl::program_id(0), tl::sum(values));
  tl::store(squares + tl::program_id(0), tl::sum(values * values));
}
template <int BLOCK_SIZE>
KILN_KERNEL void total(const float* partials, const float* squares, float* out, tl::int64_t n) {
  const auto offsets = tl::arange<BLOCK_SIZE>();
  tl::store(out, tl::sum(tl::load(partials + offsets, offsets < n)));
  tl::store(out + 1, tl::sum(tl::load(squares + offsets, offsets < n)));
}
)";

/// (sum, sum of squares) in two launches.
OpSpec moments(const std::string& name) {
  OpSpec spec;
  spec.name = name;
  spec.doc = "sum and sum of squares";
  spec.inputs = {{"x", ""}};
  spec.outputs = {{"out", ""}};
  spec.dtypes = {DType::f32};
  spec.infer = [](std::span<const TensorView>, const Attributes&) {
    return std::vector<TensorMeta>{{DType::f32, {2}}};
  };
  Variant variant;
  variant.name = "split";
  variant.source = {"moments.hpp", kSource, {}};
  variant.kernel = "partial_sums";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = [](const Target&) { return ConfigSpace{{{"BLOCK_SIZE", {128}}}, {}}; };
  variant.default_config = [](const OpCall&, const Target&) { return Config{{"BLOCK_SIZE", 128}}; };
  variant.plan = [](const OpCall& call, const Config&, const Target&) {
    const std::int64_t n = call.inputs[0].numel(), programs = (n + 127) / 128;
    LaunchPlan plan;
    plan.workspace_bytes = {programs * 4, programs * 4};
    KernelLaunch& first = plan.launches.emplace_back();
    first.template_arguments = {std::int64_t{128}};
    first.geometry.grid[0] = programs;
    first.arguments.add_tensor(1);
    first.arguments.add_workspace(0);
    first.arguments.add_workspace(1);
    first.arguments.add_value(n);
    KernelLaunch& second = plan.launches.emplace_back();
    second.kernel = "total";
    second.template_arguments = {std::int64_t{128}};
    second.arguments.add_workspace(0);
    second.arguments.add_workspace(1);
    second.arguments.add_tensor(0);
    second.arguments.add_value(programs);
    return plan;
  };
  spec.variants.push_back(std::move(variant));
  return spec;
}

class MultiKernelTest : public DevicesTest {
 protected:
  static void SetUpTestSuite() { Registry::process().register_op(moments("moments")); }
};

TEST_F(MultiKernelTest, RunsItsKernelsInOrder) {
  for (const Device device : devices_) {
    for (const int n : {1, 127, 128, 129, 10000}) {
      std::vector<float> values;
      double sum = 0, squares = 0;
      for (int i = 0; i < n; ++i) {
        values.push_back(std::sin(static_cast<float>(i)));
        sum += values.back();
        squares += static_cast<double>(values.back()) * values.back();
      }
      const std::vector<float> got = read_f32(dispatch_gpu_op("moments", {make_f32(values, device)}));
      EXPECT_NEAR(got[0], sum, 1e-3) << n << " on " << to_string(device);
      EXPECT_NEAR(got[1], squares, 1e-5 * (1 + squares)) << n << " on " << to_string(device);
    }
  }
}

TEST_F(MultiKernelTest, ReportsEachKernel) {
  const TensorView x{nullptr, DType::f32, devices_[0], {1000}, {1}};
  const ResolvedOp op = resolve("moments", {x});
  ASSERT_EQ(op.report().kernels.size(), 2u);
  EXPECT_THAT(op.report().kernels[0].name, HasSubstr("partial_sums"));
  EXPECT_THAT(op.report().kernels[1].name, HasSubstr("total"));
  EXPECT_NE(op.report().kernels[0].artifact_key, op.report().kernels[1].artifact_key);
}

TEST_F(MultiKernelTest, CallsOnOneStreamDoNotShareScratchMemory) {
  for (const Device device : devices_) {
    std::vector<Tensor> inputs, outputs;
    for (int i = 0; i < 20; ++i) inputs.push_back(make_f32(std::vector<float>(5000, static_cast<float>(i)), device));
    for (const Tensor& input : inputs) outputs.push_back(dispatch_gpu_op("moments", {input}));
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(read_f32(outputs[static_cast<std::size_t>(i)])[0], 5000.0f * static_cast<float>(i));
  }
}

TEST_F(MultiKernelTest, TooManyWorkspacesAreAnInternalError) {
  OpSpec spec = moments("too_many_workspaces");
  spec.variants[0].plan = [plan = spec.variants[0].plan](const OpCall& call, const Config& config,
                                                         const Target& target) {
    LaunchPlan changed = plan(call, config, target);
    changed.workspace_bytes.resize(kMaxWorkspaces + 1, 4);
    return changed;
  };
  Registry::process().register_op(std::move(spec));
  EXPECT_THROW(dispatch_gpu_op("too_many_workspaces", {make_f32({1, 2}, devices_[0])}), InternalError);
}

}  // namespace
}  // namespace kiln::test
