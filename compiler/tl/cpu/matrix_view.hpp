#pragma once

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

/// Whether a mask is true in a rectangle that begins at (0, 0), and how far that one goes. Those that matrices have at
/// their edges are: a row or column number less than a bound.
template <typename M>
inline constexpr bool is_rectangle = false;
template <typename S>
inline constexpr bool is_rectangle<UniformMask<S>> = true;
template <typename S>
inline constexpr bool is_rectangle<LessMask<Affine<S, Constant<1>, Constant<0>>>> = true;
template <typename S>
inline constexpr bool is_rectangle<LessMask<Affine<S, Constant<0>, Constant<1>>>> = true;
template <typename S>
inline constexpr bool is_rectangle<LessMask<Affine<S, Constant<0>, Constant<0>>>> = true;
template <typename A, typename B>
inline constexpr bool is_rectangle<AndMask<A, B>> = is_rectangle<A> && is_rectangle<B>;

struct Extents {
  int rows, columns;
};

template <typename S>
KILN_DEVICE Extents extents_of(const UniformMask<S>& mask, Extents whole) {
  return mask.value ? whole : Extents{0, 0};
}
template <AffineTile A>
KILN_DEVICE Extents extents_of(const LessMask<A>& mask, Extents whole) {
  const int room = mask.room < 0 ? 0 : mask.room;
  if constexpr (is_same<typename A::row_stride_type, Constant<1>>)
    return {room < whole.rows ? room : whole.rows, whole.columns};
  else if constexpr (is_same<typename A::column_stride_type, Constant<1>>)
    return {whole.rows, room < whole.columns ? room : whole.columns};
  else
    return room > 0 ? whole : Extents{0, 0};
}
template <typename A, typename B>
KILN_DEVICE Extents extents_of(const AndMask<A, B>& mask, Extents whole) {
  return extents_of(mask.second, extents_of(mask.first, whole));
}

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
