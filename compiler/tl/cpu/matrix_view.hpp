#pragma once

#include "compiler/tl/mask_rectangle.hpp"
#include "compiler/tl/memory.hpp"

namespace kiln::tl {

/// A matrix where it lies, in memory or in a tile: of a tile's elements only the first `rows` x `columns` exist, and
/// the others are 0.
template <Number T, typename RowStride, typename ColumnStride>
struct MatrixView {
  using value_type = T;
  using row_stride_type = RowStride;
  using column_stride_type = ColumnStride;

  const T* data;
  RowStride row_stride;
  ColumnStride column_stride;
  int rows, columns;

  /// What is left of it from (row, column) on.
  KILN_DEVICE MatrixView from(int row, int column) const {
    return {data + row * static_cast<int64_t>(row_stride) + column * static_cast<int64_t>(column_stride), row_stride,
            column_stride, rows - row, columns - column};
  }
};

/// A value as a matrix, and the matrix of an operand that is one: `operand_of` keeps what a view looks at.
template <Number T, typename S, typename L>
KILN_DEVICE const Tile<T, S, L>& operand_of(const Tile<T, S, L>& x) {
  return x;
}
template <Number T, typename S, typename L>
KILN_DEVICE MatrixView<T, Constant<S::kColumns>, Constant<1>> view_of(const Tile<T, S, L>& x) {
  return {x.registers, {}, {}, S::kRows, S::kColumns};
}

}  // namespace kiln::tl
