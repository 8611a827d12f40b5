#include "ops/normalization/row_walk.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace kiln::normalization {
namespace {

/// By the first operand's strides.
std::vector<WalkDim> collapse(std::vector<WalkDim> dims) {
  common::sort_innermost_first(dims, [](const WalkDim& dim) { return common::magnitude(dim.strides[0]); });
  return common::merged(dims);
}

/// Brings the first dimension that `fits` to the front; false where there is none.
template <typename Fits>
bool put_first(std::vector<WalkDim>& dims, Fits fits) {
  const auto found = std::find_if(dims.begin(), dims.end(), fits);
  if (found == dims.end()) return false;
  std::rotate(dims.begin(), found, found + 1);
  return true;
}

std::int64_t product(std::vector<WalkDim>::const_iterator begin, std::vector<WalkDim>::const_iterator end) {
  std::int64_t extent = 1;
  for (auto dim = begin; dim != end; ++dim) extent *= dim->extent;
  return extent;
}

}  // namespace

std::int64_t RowWalk::segments() const {
  return product(reduced.begin() + 1, reduced.end());
}

std::int64_t RowWalk::outer_rows() const {
  return product(kept.begin() + 1, kept.end());
}

bool RowWalk::keeps_alignment() const {
  if (!is_dense) return false;
  const auto aligned = [&](const std::vector<WalkDim>& dims, bool first_is_columns) {
    for (std::size_t d = first_is_columns ? 1 : 0; d < dims.size(); ++d)
      for (std::size_t o = 0; o < operands.size(); ++o)
        if (dims[d].extent > 1 && dims[d].strides[o] * operands[o].itemsize_bytes % 16 != 0) return false;
    return true;
  };
  return aligned(kept, axis == 0) && aligned(reduced, axis == 1);
}

RowWalk make_walk(const Dims& shape, const std::vector<bool>& is_reduced, std::vector<RowOperand> operands) {
  RowWalk walk;
  walk.operands = std::move(operands);
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    WalkDim dim{shape[axis], {}};
    for (std::size_t o = 0; o < walk.operands.size(); ++o)
      if (walk.operands[o].itemsize_bytes > 0) dim.strides[o] = walk.operands[o].strides[axis];
    (is_reduced[static_cast<std::size_t>(axis)] ? walk.reduced : walk.kept).push_back(dim);
  }
  walk.kept = collapse(std::move(walk.kept));
  walk.reduced = collapse(std::move(walk.reduced));

  const auto steps_by_one = [&](const WalkDim& dim, bool with_shared) {
    for (std::size_t o = 0; o < walk.operands.size(); ++o)
      if (walk.operands[o].itemsize_bytes > 0 && (with_shared || !walk.operands[o].is_shared) && dim.strides[o] != 1)
        return false;
    return true;
  };
  const auto first_input_steps_by_one = [&](const WalkDim& dim) {
    const auto input =
        static_cast<std::size_t>(walk.operands.size() == ops::kSoftmaxOperands ? static_cast<int>(ops::kSoftmaxIn)
                                                                               : static_cast<int>(ops::kNormIn));
    return common::magnitude(dim.strides[input]) == 1;
  };
  if (put_first(walk.reduced, [&](const WalkDim& dim) { return steps_by_one(dim, true); })) {
    walk.is_dense = true;
  } else if (put_first(walk.kept, [&](const WalkDim& dim) { return steps_by_one(dim, false); })) {
    walk.axis = 0;
    walk.is_dense = true;
  } else if (put_first(walk.kept, first_input_steps_by_one)) {
    walk.axis = 0;
  }
  if (walk.kept.empty()) walk.kept.emplace_back();
  if (walk.reduced.empty()) walk.reduced.emplace_back();
  return walk;
}

}  // namespace kiln::normalization
