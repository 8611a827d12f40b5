#pragma once

#include "compiler/tl/cpu/matrix_view.hpp"
#include "compiler/tl/cpu/transpose_block.hpp"

namespace kiln::tl {

/// to[r * to_stride + c] = from[r, c] for r < rows and c < columns; 0 where `from` ends before. One at a time: for
/// edges, and for matrices that are contiguous in neither direction, whose gathers are no faster.
template <Number C, typename View>
KILN_DEVICE void pack_singly(const View& from, int rows, int columns, C* to, int64_t to_stride) {
  _Pragma("clang loop vectorize(disable) unroll(disable)") for (int r = 0; r < rows; ++r)
      _Pragma("clang loop vectorize(disable) unroll(disable)") for (int c = 0; c < columns; ++c) to[r * to_stride + c] =
          r < from.rows && c < from.columns ? cast<C>(*from.from(r, c).data) : C{};
}

/// The first `count` rows of a square of TransposeBlock. A call, because all that transpose share it: its shuffles take
/// long to compile.
template <Number T>
[[gnu::noinline]] void transpose_square(int64_t count, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  TransposeBlock<T>::run_rows(count, from, from_stride, to, to_stride);
}

/// Copies a matrix into to[row * to_stride + column] as numbers of type C, filled up with zeros to `padded_rows` and to
/// `padded_columns`, a multiple of the sides of both types' squares. There is room for a multiple of 16 rows.
template <Number C, typename View>
KILN_DEVICE void pack_matrix(const View& from, int padded_rows, int padded_columns, C* to, int64_t to_stride) {
  using T = typename View::value_type;
  if constexpr (is_same<typename View::column_stride_type, Constant<1>>) {
    constexpr int kRun = TransposeBlock<C>::kSide, kRowsAhead = 8;
    KILN_NO_UNROLL for (int row = 0; row < padded_rows; ++row)
        KILN_NO_UNROLL for (int column = 0; column < padded_columns; column += kRun) {
      const T* const first = from.from(row, column).data;
      __builtin_prefetch(first + kRowsAhead * static_cast<int64_t>(from.row_stride));
      C* const target = to + (row * to_stride + column);
      const int columns = row < from.rows ? from.columns - column : 0;
      if (columns >= kRun) {
        KILN_NO_UNROLL for (int c = 0; c < kRun; ++c) target[c] = cast<C>(first[c]);
      } else {
        KILN_NO_UNROLL for (int c = 0; c < kRun; ++c) target[c] = c < columns ? cast<C>(first[c]) : C{};
      }
    }
  } else if constexpr (is_same<typename View::row_stride_type, Constant<1>>) {
    constexpr int kSide = TransposeBlock<T>::kSide;
    KILN_NO_UNROLL for (int column = 0; column < padded_columns; column += kSide)
        KILN_NO_UNROLL for (int row = 0; row < padded_rows; row += kSide) {
      const View rest = from.from(row, column);
      KILN_NO_UNROLL for (int c = kSide; c < 2 * kSide; ++c)
          __builtin_prefetch(rest.data + c * static_cast<int64_t>(rest.column_stride));
      // A last square that is not whole begins earlier and overlaps the one before.
      const int first_row = rest.rows < kSide ? from.rows - kSide : row;
      if (first_row < 0) {
        pack_singly<C>(rest, kSide, kSide, to + (row * to_stride + column), to_stride);
        continue;
      }
      C* const target = to + (first_row * to_stride + column);
      const T* const first = from.from(first_row, column).data;
      if constexpr (is_same<T, C>) {
        if (rest.rows > 0) transpose_square(rest.columns, first, rest.column_stride, target, to_stride);
      } else if (rest.rows > 0) {
        T square[kSide * kSide];
        transpose_square(rest.columns, first, rest.column_stride, square, kSide);
        KILN_NO_UNROLL for (int r = 0; r < kSide; ++r) KILN_NO_UNROLL for (int c = 0; c < kSide; ++c)
            target[r * to_stride + c] = cast<C>(square[r * kSide + c]);
      }
      KILN_NO_UNROLL for (int r = kSide; r < kSide + row - first_row; ++r)
          __builtin_memset(target + r * to_stride, 0, kSide * sizeof(C));
    }
  } else {
    pack_singly<C>(from, padded_rows, padded_columns, to, to_stride);
  }
}

}  // namespace kiln::tl
