#pragma once

#include "core/tensor.hpp"

namespace kiln::linear {

/// Whether linear copies a weight (out, in) on a GPU in each large call, since rows do not start at multiples of 16
/// bytes, or reads it up to a tenth more slowly: one of 8 bits whose dense dimension is out.
bool needs_packing(const TensorView& weight);

/// The strides of a weight (out, in) that linear reads as it lies.
Dims packed_strides(const TensorView& weight);

}  // namespace kiln::linear
