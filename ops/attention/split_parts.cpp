#include "ops/attention/split_parts.hpp"

#include <algorithm>
#include <utility>

#include "ops/attention/merge_launch.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::attention {
namespace {

void exchange(TensorView& view, int axis, int other) {
  std::swap(view.shape[axis], view.shape[other]);
  std::swap(view.strides[axis], view.strides[other]);
}

}  // namespace

std::int64_t num_splits(const SplitDemand& demand, const Target& target) {
  // Multiprocessors where nothing is known of the GPU (an H200), and keys that are worth a part of their own, which
  // costs a row of floats for each query.
  constexpr std::int64_t kProcessors = 132, kLeastKeys = 64, kMost = 128;
  // Of the best division's share of time in which programs have work, what the fewest parts must reach
  // (FlashAttention's rule), and of a turn of all programs what is lost at the end. Requests differ in length, which
  // the more turns make up for the more there are.
  constexpr double kGood = 0.85, kLost = 0.25;
  const std::int64_t steps = std::max<std::int64_t>(ceil_div(demand.most_tokens, demand.block_keys), 1);
  if (demand.requested > 0) return std::min(demand.requested, steps);
  const std::int64_t most = std::min({ceil_div(demand.most_tokens, kLeastKeys), steps, kMost});
  const std::int64_t places = is_cuda(target)
                                  ? demand.programs_each * (demand.processors > 0 ? demand.processors : kProcessors)
                                  : std::max<std::int64_t>(demand.processors, 1);
  if (demand.programs == 0 || most <= 1 || (!is_cuda(target) && demand.programs >= places)) return 1;
  const auto share = [&](std::int64_t splits) {
    const std::int64_t all = demand.programs * splits;
    const double turns = std::max(static_cast<double>(all) / static_cast<double>(places), 1.0);
    const double even = static_cast<double>(all) / static_cast<double>(ceil_div(all, places) * places);
    return even * turns / (turns + kLost);
  };
  double best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) best = std::max(best, share(splits));
  std::int64_t splits = 1;
  while (share(splits) < kGood * best) ++splits;
  return splits;
}

std::vector<std::int64_t> SplitParts::workspace_bytes() const {
  const auto bytes_of = [](const TensorView& view) { return view.numel() * itemsize_bytes(view.dtype); };
  return {bytes_of(rows), bytes_of(lses)};
}

SplitParts parts_by_queries(const PartShape& shape) {
  return {dense_view(nullptr, DType::f32, {shape.splits, shape.batch, shape.queries, shape.heads, shape.width}),
          dense_view(nullptr, DType::f32, {shape.splits, shape.batch, shape.queries, shape.heads})};
}

SplitParts parts_by_heads(const PartShape& shape) {
  PartShape exchanged = shape;
  std::swap(exchanged.queries, exchanged.heads);
  SplitParts parts = parts_by_queries(exchanged);
  exchange(parts.rows, 2, 3);
  exchange(parts.lses, 2, 3);
  return parts;
}

void add_merge(const MergedOutputs& outputs, const SplitParts& parts, const Target& target, LaunchPlan& plan) {
  TensorView lse;
  if (outputs.lse != nullptr) {  // [B, Sq, H], as the rows
    lse = *outputs.lse;
    exchange(lse, 1, 2);
  }
  const MergeCall merge = merge_of(outputs.out, outputs.lse != nullptr ? &lse : nullptr, parts.rows, parts.lses);
  KernelLaunch& launch =
      plan.launches.emplace_back(merge_launch(outputs.op, merge, default_merge_tiling(merge, target), target));
  common::KernelParameters(launch)
      .written(0, outputs.out.dtype)
      .written(outputs.lse != nullptr ? 1 : -1, DType::f32)
      .read_workspace(kPartRows, DType::f32)
      .read_workspace(kPartLses, DType::f32)
      .value(merge.iteration);
}

}  // namespace kiln::attention
