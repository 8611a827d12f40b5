#include "ops/attention/widening.hpp"

#include "ops/attention/number_types.hpp"
#include "ops/attention/tiling.hpp"
#include "ops/layout/workspace_copy.hpp"

namespace kiln::attention {
namespace {

/// Views keys or values as they will lie in a workspace.
void place_in_workspace(TensorView& view, int& workspace, int number, DType type) {
  view = dense_view(nullptr, type, view.shape, view.device);
  workspace = number;
}

void add_cast(const TensorView& to, int workspace, const TensorView& from, int tensor, const Target& target,
              LaunchPlan& plan) {
  if (workspace < 0) return;
  layout::add_workspace_copy(kOp, workspace, to, tensor, from, target, plan);
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
      call.key.dtype == call.dtype && ops::parts_of_head(call.form.head_dim).least() >= ops::kLeastByteDim;
  int number = 0;
  if (!has_byte_scores) place_in_workspace(result.key, result.key_workspace, number++, products);
  place_in_workspace(result.value, result.value_workspace, number, products);
  set_key_strides(result);
  return result;
}

void add_casts(const AttentionCall& widened, const AttentionCall& call, const Target& target, LaunchPlan& plan) {
  add_cast(widened.key, widened.key_workspace, call.key, call.tensor(kKey), target, plan);
  add_cast(widened.value, widened.value_workspace, call.value, call.tensor(kValue), target, plan);
}

}  // namespace kiln::attention
