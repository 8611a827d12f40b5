#pragma once

#include "compiler/tl/number.hpp"

namespace kiln::tl {

/// out[c * rows + r] = x[r, c] for `columns` columns of x, whose rows are dense and x_stride elements apart: its rows
/// interleaved. kTileBytes and block_columns are for the GPU.
template <int kTileBytes, Number T>
KILN_DEVICE void copy_interleaved(T* out, const T* x, int64_t x_stride, int rows, int /*block_columns*/, int columns) {
  for (int column = 0; column < columns; ++column)
    for (int row = 0; row < rows; ++row) out[int64_t{column} * rows + row] = x[row * x_stride + column];
}

}  // namespace kiln::tl
