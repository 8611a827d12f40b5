#include "ops/reduction/collapse.hpp"

#include <algorithm>
#include <limits>

namespace kiln::reduction {
namespace {

std::int64_t magnitude(std::int64_t stride) {
  return stride < 0 ? -stride : stride;
}

/// Broadcast dimensions come last: a tile along one reads the same element over and over.
std::int64_t sort_key(const CollapsedDim& dim) {
  return dim.stride == 0 ? std::numeric_limits<std::int64_t>::max() : magnitude(dim.stride);
}

bool merges(const CollapsedDim& inner, const CollapsedDim& outer) {
  for (std::size_t i = 0; i < inner.output_strides.size(); ++i)
    if (outer.output_strides[i] != inner.output_strides[i] * inner.extent) return false;
  return outer.stride == inner.stride * inner.extent;
}

/// The fewest dimensions that step through the same elements; `dims` is innermost first.
std::vector<CollapsedDim> merged(const std::vector<CollapsedDim>& dims) {
  std::vector<CollapsedDim> result;
  for (const CollapsedDim& dim : dims) {
    if (!result.empty() && merges(result.back(), dim))
      result.back().extent *= dim.extent;
    else
      result.push_back(dim);
  }
  if (result.empty()) result.emplace_back();
  return result;
}

}  // namespace

bool CollapsedReduction::reduces_rows() const {
  return kept_total <= 1 || (reduced_total > 1 && sort_key(reduced[0]) <= sort_key(kept[0]));
}

bool CollapsedReduction::has_dense_columns() const {
  return (reduces_rows() ? reduced : kept)[0].stride == 1;
}

CollapsedReduction collapse(const TensorView& input, std::span<const TensorView> outputs, std::span<const int> axes,
                            bool keep_order) {
  CollapsedReduction result;
  std::vector<CollapsedDim> kept, reduced;
  const bool keeps_dims = !outputs.empty() && outputs[0].ndim() == input.ndim();
  int output_axis = outputs.empty() ? 0 : outputs[0].ndim();
  for (int axis = input.ndim() - 1; axis >= 0; --axis) {
    CollapsedDim dim{input.shape[axis], input.strides[axis], {}};
    const bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!is_reduced || keeps_dims) --output_axis;
    (is_reduced ? result.reduced_total : result.kept_total) *= dim.extent;
    if (dim.extent == 1) continue;
    if (is_reduced) {
      if (dim.stride < 0 && dim.extent > 0 && !keep_order) {
        result.input_offset += dim.stride * (dim.extent - 1);
        dim.stride = -dim.stride;
      }
      reduced.push_back(dim);
    } else {
      for (std::size_t i = 0; i < outputs.size(); ++i) dim.output_strides[i] = outputs[i].strides[output_axis];
      kept.push_back(dim);
    }
  }
  // Stable: dimensions that tie keep their order, the last axis innermost.
  const auto by_stride = [](const CollapsedDim& a, const CollapsedDim& b) { return sort_key(a) < sort_key(b); };
  std::stable_sort(kept.begin(), kept.end(), by_stride);
  if (!keep_order) std::stable_sort(reduced.begin(), reduced.end(), by_stride);
  // Without elements, one dimension of extent 0 stands for all: others could hold strides that mean nothing.
  if (result.reduced_total == 0) reduced = {{0, 0, {}}};
  if (result.kept_total == 0) kept = {{0, 0, {}}};
  result.kept = merged(kept);
  result.reduced = merged(reduced);
  return result;
}

}  // namespace kiln::reduction
