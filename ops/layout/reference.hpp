#pragma once

#include "core/tensor.hpp"

namespace kiln::layout {

/// Writes every element of `in` to its place in `out`, of the same shape, element by element on the CPU; bits as they
/// are where dtypes agree, else converted as `cast` does.
void copy_elements(const TensorView& out, const TensorView& in);

}  // namespace kiln::layout
