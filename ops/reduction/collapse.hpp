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

/// Places in a dimension's strides: the input's, then the outputs'. Reduced dimensions have none in the outputs.
inline constexpr std::size_t kInput = 0, kFirstOutput = 1;
using CollapsedDim = common::WalkDim<kFirstOutput + ops::kMaxReductionOutputs>;

/// Kept and reduced dimensions, each the fewest there can be, innermost first. Without any, one of extent 1 stands in.
struct CollapsedReduction {
  std::vector<CollapsedDim> kept, reduced;
  std::int64_t input_offset = 0;  ///< where dimensions are walked backwards
  std::int64_t kept_total = 1, reduced_total = 1;

  /// Whether the reduced dimension is the contiguous one, or nearer to it than the kept: tiles are then rows of it.
  bool reduces_rows() const;
  /// Whether the dimension that a tile's columns run along is dense.
  bool has_dense_columns() const;
};

/// `keep_order`: positions along the reduced dimensions matter, so these keep their order and direction.
CollapsedReduction collapse(const TensorView& input, std::span<const TensorView> outputs, std::span<const int> axes,
                            bool keep_order);

}  // namespace kiln::reduction
