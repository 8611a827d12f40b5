#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"
#include "ops/common/walk_dim.hpp"
#include "ops/normalization/iteration.hpp"

namespace kiln::normalization {

/// One operand of a row op as the walk sees it.
struct RowOperand {
  Dims strides;                     ///< along x's axes, in elements; 0 along those it does not have
  std::int64_t itemsize_bytes = 0;  ///< 0: the call leaves this operand out
  bool is_shared = false;           ///< has the reduced axes alone: a weight
};

using WalkDim = common::WalkDim<ops::kNormOperands>;

/// How a row op walks over its tensors: dimensions collapsed to the fewest, one kept and one reduced for the tile
/// first.
struct RowWalk {
  std::vector<RowOperand> operands;
  std::vector<WalkDim> kept, reduced;  ///< at least one each; the tile's first
  int axis = 1;  ///< of the tile, along which the reduced dimension runs: 1 unless only a kept one is contiguous
  bool is_dense = false;  ///< the tile's columns are contiguous in every operand

  std::int64_t segments() const;    ///< product of the reduced extents but the tile's
  std::int64_t outer_rows() const;  ///< product of the kept extents but the tile's
  /// Whether 16-byte accesses along the columns start at multiples of 16 bytes wherever the tensors do.
  bool keeps_alignment() const;
};

/// `is_reduced[axis]` of x's axes. Operands: the outputs and inputs, in the order the kernel numbers them.
RowWalk make_walk(const Dims& shape, const std::vector<bool>& is_reduced, std::vector<RowOperand> operands);

/// What the kernel is given for tiles of block_kept by any number of reduced elements.
template <int kOperands>
ops::RowIteration<kOperands> row_iteration(const RowWalk& walk, std::int64_t block_kept) {
  ops::RowIteration<kOperands> result{};
  result.kept = walk.kept[0].extent;
  result.kept_blocks = (result.kept + block_kept - 1) / block_kept;
  result.reduced = walk.reduced[0].extent;
  result.segments = walk.segments();
  result.num_outer_dims = static_cast<int>(walk.kept.size()) - 1;
  result.num_segment_dims = static_cast<int>(walk.reduced.size()) - 1;
  for (int o = 0; o < kOperands; ++o) {
    const auto operand = static_cast<std::size_t>(o);
    result.kept_strides[o] = walk.kept[0].strides[operand];
    result.reduced_strides[o] = walk.reduced[0].strides[operand];
    for (std::size_t dim = 1; dim < walk.kept.size(); ++dim)
      result.outer_strides[o][dim - 1] = walk.kept[dim].strides[operand];
    for (std::size_t dim = 1; dim < walk.reduced.size(); ++dim)
      result.segment_strides[o][dim - 1] = walk.reduced[dim].strides[operand];
  }
  for (std::size_t dim = 1; dim < walk.kept.size(); ++dim) result.outer_extents[dim - 1] = walk.kept[dim].extent;
  for (std::size_t dim = 1; dim < walk.reduced.size(); ++dim)
    result.segment_extents[dim - 1] = walk.reduced[dim].extent;
  return result;
}

}  // namespace kiln::normalization
