#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"
#include "ops/common/walk_dim.hpp"
#include "ops/reduction/iteration.hpp"
#include "ops/reduction/reduction.hpp"

namespace kiln::reduction {

/// Places in a dimension's strides: the input's, then the outputs'. Reduced dimensions have none in the outputs. Those
/// that are spread out (spread_out) have instead, at kPlace, how far apart their elements' places are.
inline constexpr std::size_t kInput = 0, kFirstOutput = 1, kPlace = kFirstOutput;
using CollapsedDim = common::WalkDim<kFirstOutput + ops::kMaxReductionOutputs>;

/// Kept and reduced dimensions, each the fewest there can be, innermost first. Without any, one of extent 1 stands in.
struct CollapsedReduction {
  std::vector<CollapsedDim> kept, reduced;
  std::int64_t input_offset = 0;  ///< where dimensions are walked backwards
  std::int64_t kept_total = 1, reduced_total = 1;
  bool is_spread = false;  ///< all kept elements have one output, which their states are joined to

  /// Whether the reduced dimension is the contiguous one, or nearer to it than the kept: tiles are then rows of it.
  bool reduces_rows() const;
  /// Whether the dimension that a tile's columns run along is dense.
  bool has_dense_columns() const;
};

/// `keep_order`: positions along the reduced dimensions matter, so these keep their order and direction.
CollapsedReduction collapse(const TensorView& input, std::span<const TensorView> outputs, std::span<const int> axes,
                            bool keep_order);

/// A search for a place in several dimensions as one along the innermost in memory, or the longest where that is much
/// longer: the others are kept, and sorted as memory has them. So memory is read in its order, while elements that meet
/// in a state are in that of their places.
CollapsedReduction spread_out(const CollapsedReduction& in_order);

}  // namespace kiln::reduction
