#pragma once

#include "compiler/tl/cpu/transpose_block.hpp"

namespace kiln::tl {

/// out[c, r] = x[r, c] for one tile of x, a matrix of rows x columns elements, each row dense, square by square. Any
/// alignment is as fast, so kStraddling must be false and kSeamBytes 0: they are for the GPU.
template <int kRows, int kColumns, bool kStraddling, int kSeamBytes, Number T>
KILN_DEVICE void copy_transposed(T* out, int64_t out_stride, const T* x, int64_t x_stride, int64_t row_block,
                                 int64_t column_block, int64_t rows, int64_t columns) {
  using Block = TransposeBlock<T>;
  static_assert(!kStraddling && kSeamBytes == 0, "copy_transposed: alignment matters to the GPU only");
  static_assert(kRows % Block::kSide == 0 && kColumns % Block::kSide == 0, "copy_transposed: tiles of whole squares");
  const int64_t first_row = row_block * kRows, first_column = column_block * kColumns;
  const int64_t end_row = rows - first_row < kRows ? rows : first_row + kRows;
  const int64_t end_column = columns - first_column < kColumns ? columns : first_column + kColumns;
  for (int64_t row = first_row; row < end_row; row += Block::kSide)
    for (int64_t column = first_column; column < end_column; column += Block::kSide) {
      const T* const from = x + (row * x_stride + column);
      T* const to = out + (column * out_stride + row);
      if (row + Block::kSide <= end_row && column + Block::kSide <= end_column) {
        Block::run(from, x_stride, to, out_stride);
      } else {
        const int64_t square_rows = end_row - row < Block::kSide ? end_row - row : Block::kSide;
        const int64_t square_columns = end_column - column < Block::kSide ? end_column - column : Block::kSide;
        for (int64_t c = 0; c < square_columns; ++c)
          for (int64_t r = 0; r < square_rows; ++r) to[c * out_stride + r] = from[r * x_stride + c];
      }
    }
}

}  // namespace kiln::tl
