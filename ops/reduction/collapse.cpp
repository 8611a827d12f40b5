#include "ops/reduction/collapse.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace kiln::reduction {
namespace {

/// Broadcast dimensions come last: a tile along one reads the same element over and over.
std::int64_t sort_key(const CollapsedDim& dim) {
  return dim.strides[kInput] == 0 ? std::numeric_limits<std::int64_t>::max() : common::magnitude(dim.strides[kInput]);
}

/// Rows are read faster than columns, but so many times as many states would take longer to join.
constexpr std::int64_t kMostStatesOfRows = 8;

/// Without any, one of extent 1 stands in.
std::vector<CollapsedDim> merged_or_one(const std::vector<CollapsedDim>& dims) {
  return dims.empty() ? std::vector<CollapsedDim>(1) : common::merged(dims);
}

}  // namespace

bool CollapsedReduction::reduces_rows() const {
  return kept_total <= 1 || (reduced_total > 1 && sort_key(reduced[0]) <= sort_key(kept[0]));
}

bool CollapsedReduction::has_dense_columns() const {
  return (reduces_rows() ? reduced : kept)[0].strides[kInput] == 1;
}

CollapsedReduction collapse(const TensorView& input, std::span<const TensorView> outputs, std::span<const int> axes,
                            bool keep_order) {
  CollapsedReduction result;
  std::vector<CollapsedDim> kept, reduced;
  const bool keeps_dims = !outputs.empty() && outputs[0].ndim() == input.ndim();
  int output_axis = outputs.empty() ? 0 : outputs[0].ndim();
  for (int axis = input.ndim() - 1; axis >= 0; --axis) {
    CollapsedDim dim{input.shape[axis], {input.strides[axis]}};
    const bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!is_reduced || keeps_dims) --output_axis;
    (is_reduced ? result.reduced_total : result.kept_total) *= dim.extent;
    if (dim.extent == 1) continue;
    if (is_reduced) {
      if (dim.strides[kInput] < 0 && dim.extent > 0 && !keep_order) {
        result.input_offset += dim.strides[kInput] * (dim.extent - 1);
        dim.strides[kInput] = -dim.strides[kInput];
      }
      reduced.push_back(dim);
    } else {
      for (std::size_t i = 0; i < outputs.size(); ++i) dim.strides[kFirstOutput + i] = outputs[i].strides[output_axis];
      kept.push_back(dim);
    }
  }
  // The last axis is innermost of those that tie.
  common::sort_innermost_first(kept, sort_key);
  if (!keep_order) common::sort_innermost_first(reduced, sort_key);
  // Without elements, one dimension of extent 0 stands for all: others could hold strides that mean nothing.
  if (result.reduced_total == 0) reduced = {{0, {}}};
  if (result.kept_total == 0) kept = {{0, {}}};
  result.kept = merged_or_one(kept);
  result.reduced = merged_or_one(reduced);
  return result;
}

CollapsedReduction spread_out(const CollapsedReduction& in_order) {
  CollapsedReduction result = in_order;
  result.is_spread = true;
  result.kept = std::move(result.reduced);
  std::int64_t places = 1;
  for (CollapsedDim& dim : result.kept) {
    dim.strides[kPlace] = places;
    places *= dim.extent;
  }
  common::sort_innermost_first(result.kept, sort_key);
  auto along = std::max_element(result.kept.begin(), result.kept.end(),
                                [](const auto& a, const auto& b) { return a.extent < b.extent; });
  if (along->extent < kMostStatesOfRows * result.kept[0].extent) along = result.kept.begin();
  result.reduced = {*along};
  result.kept.erase(along);
  result.reduced_total = result.reduced[0].extent;
  result.kept_total = places / result.reduced_total;
  return result;
}

}  // namespace kiln::reduction
