#include "ops/attention/widening.hpp"

#include "ops/attention/number_types.hpp"
#include "ops/attention/tiling.hpp"
#include "ops/layout/copy_config.hpp"
#include "ops/layout/copy_plan.hpp"

namespace kiln::attention {
namespace {

/// Of scores that queries and keys of one 8-bit type are multiplied for as such (ScoreOperand).
constexpr int kLeastByteDim = 32;

void move(TensorView& view, int& workspace, int number, DType type) {
  view = dense_view(nullptr, type, view.shape, view.device);
  workspace = number;
}

void add_cast(const TensorView& to, int workspace, const TensorView& from, int tensor, const Target& target,
              LaunchPlan& plan) {
  if (workspace < 0) return;
  const layout::Copy copy = layout::make_copy(to, from);
  const layout::CopyKind kind = layout::kind_of(copy, DeviceType::cuda);
  KernelLaunch& launch = plan.launches.emplace_back(layout::make_launch(
      kind, kOp, copy, layout::default_config(kind, copy, target), target, {.workspace = workspace}, tensor));
  launch.source = embedded_source("ops/layout/kernel.hpp");
  plan.workspace_bytes.push_back(to.numel() * itemsize_bytes(to.dtype));
}

}  // namespace

bool is_worth_widening(const AttentionCall& call, const Target& target) {
  const AttentionProblem& problem = call.problem;
  if (!has_wgmma(target) || !is_fp8(call.value.dtype) || call.dtype == DType::f32) return false;
  // Casting takes about as long as the products of 170 queries with each key gain, and another launch as long as what
  // the others gain in a billion of operations (H100: 320 TFLOP/s without, 700 with).
  constexpr std::int64_t kLeastQueries = 256;
  constexpr double kLeastFlops = 1 << 30;
  return problem.queries * problem.group() >= kLeastQueries && problem.flops() >= kLeastFlops;
}

AttentionCall widened(const AttentionCall& call) {
  AttentionCall result = call;
  const DType products = product_dtype(call.dtype);
  const bool has_byte_scores =
      call.key.dtype == call.dtype && ops::parts_of_head(call.form.head_dim).least() >= kLeastByteDim;
  int number = 0;
  if (!has_byte_scores) move(result.key, result.key_workspace, number++, products);
  move(result.value, result.value_workspace, number, products);
  set_key_strides(result);
  return result;
}

void add_casts(const AttentionCall& widened, const AttentionCall& call, const Target& target, LaunchPlan& plan) {
  add_cast(widened.key, widened.key_workspace, call.key, call.tensor(kKey), target, plan);
  add_cast(widened.value, widened.value_workspace, call.value, call.tensor(kValue), target, plan);
}

}  // namespace kiln::attention
