#include "ops/attention/split_parts.hpp"

#include <utility>

#include "ops/attention/merge_launch.hpp"
#include "ops/attention/strides.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::attention {

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
