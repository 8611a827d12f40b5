#pragma once

#include "compiler/tl/tile.hpp"

namespace kiln::tl {

template <Integer T>
KILN_DEVICE T modulo(T x, T y);

/// What an axis adds to offsets beside its stride: nothing,
struct NoAxis {
  KILN_DEVICE constexpr int64_t at(int) const { return 0; }
};
/// or (start + i) % bound * stride at place i, or a tile's number, which is one of kM x 1 for rows and of 1 x kN for
/// columns.
template <typename Stride>
struct WrappedAxis {
  int64_t start, bound;
  Stride stride;

  KILN_DEVICE bool wraps(int extent) const { return start < 0 || start > bound - extent; }
  KILN_DEVICE int64_t at(int i) const {
    const int64_t place = start + i, past = place - bound;
    const bool is_next = past >= 0 && past < bound;
    return (place >= 0 && past < 0 ? place : is_next ? past : modulo(place, bound)) * static_cast<int64_t>(stride);
  }
};

/// A tile of integers whose rows and columns add up: affine + rows[row] + columns[column], where at least one axis is
/// no multiple of its place. `arange % n`, and numbers of rows that were loaded or computed, plus an arange along the
/// rows, are of this kind: of addresses made of them each row is still contiguous.
template <typename Rows, typename Columns, AffineTile A>
struct Separable {
  using shape = typename A::shape;
  using rows_type = Rows;
  using columns_type = Columns;
  using affine_type = A;
  /// Whether no axis is a tile. Such offsets are affine wherever nothing wraps.
  static constexpr bool kMayBeAffine = !is_tile<Rows> && !is_tile<Columns>;

  Rows rows;
  Columns columns;
  A affine;

  KILN_DEVICE bool is_affine() const { return !wraps(rows, shape::kRows) && !wraps(columns, shape::kColumns); }
  /// What it is where is_affine() holds.
  KILN_DEVICE auto as_affine() const {
    return make_affine<shape>(affine.base + base_of(rows) + base_of(columns),
                              add_strides(affine.row_stride, stride_of(rows)),
                              add_strides(affine.column_stride, stride_of(columns)));
  }

 private:
  KILN_DEVICE static bool wraps(NoAxis, int) { return false; }
  KILN_DEVICE static int64_t base_of(NoAxis) { return 0; }
  KILN_DEVICE static Constant<0> stride_of(NoAxis) { return {}; }
  template <typename Stride>
  KILN_DEVICE static bool wraps(const WrappedAxis<Stride>& axis, int extent) {
    return axis.wraps(extent);
  }
  template <typename Stride>
  KILN_DEVICE static int64_t base_of(const WrappedAxis<Stride>& axis) {
    return axis.start * static_cast<int64_t>(axis.stride);
  }
  template <typename Stride>
  KILN_DEVICE static Stride stride_of(const WrappedAxis<Stride>& axis) {
    return axis.stride;
  }
  // Of a tile nothing but the type of its stride is asked, which is one that no compiler knows.
  template <ValueTile T>
  KILN_DEVICE static int64_t base_of(const T&) {
    return 0;
  }
  template <ValueTile T>
  KILN_DEVICE static int64_t stride_of(const T&) {
    return 0;
  }
};

template <typename T>
inline constexpr bool is_separable = false;
template <typename R, typename C, typename A>
inline constexpr bool is_separable<Separable<R, C, A>> = true;
template <typename T>
concept SeparableTile = is_separable<T>;
/// Integers that stay symbolic until somebody reads their values.
template <typename T>
concept SymbolicIndex = AffineTile<T> || SeparableTile<T>;

/// Values that are a Separable's rows or columns.
template <typename T>
inline constexpr bool is_axis_tile = false;
template <Integer T, typename S, typename L>
inline constexpr bool is_axis_tile<Tile<T, S, L>> = S::kRank == 2 && (S::kRows == 1) != (S::kColumns == 1) &&
                                                    !is_same<T, bool> && (sizeof(T) < 8 || NumberTraits<T>::kIsSigned);

template <typename A, typename B>
inline constexpr bool kAxesAdd = is_same<A, NoAxis> || is_same<B, NoAxis> || (is_tile<A> && is_tile<B>);

/// Whether a + b is Separable.
template <typename A, typename B>
inline constexpr bool kSumIsSeparable = false;
template <SeparableTile A, SeparableTile B>
inline constexpr bool kSumIsSeparable<A, B> = kAxesAdd<typename A::rows_type, typename B::rows_type> &&
                                              kAxesAdd<typename A::columns_type, typename B::columns_type>;
template <SeparableTile A, AffineTile B>
inline constexpr bool kSumIsSeparable<A, B> = true;
template <AffineTile A, SeparableTile B>
inline constexpr bool kSumIsSeparable<A, B> = true;
template <SeparableTile A, ValueTile B>
  requires(is_axis_tile<B>)
inline constexpr bool kSumIsSeparable<A, B> =
    kAxesAdd<conditional_t<B::shape::kColumns == 1, typename A::rows_type, typename A::columns_type>, B>;
template <ValueTile A, SeparableTile B>
  requires(is_axis_tile<A>)
inline constexpr bool kSumIsSeparable<A, B> = kSumIsSeparable<B, A>;
/// A tile that affine offsets make no larger is better added at once.
template <ValueTile A, AffineTile B>
  requires(is_axis_tile<A>)
inline constexpr bool kSumIsSeparable<A, B> =
    !is_same<broadcast_shape_t<typename A::shape, typename B::shape>, typename A::shape>;
template <AffineTile A, ValueTile B>
  requires(is_axis_tile<B>)
inline constexpr bool kSumIsSeparable<A, B> = kSumIsSeparable<B, A>;
template <SeparableTile A, Integer B>
inline constexpr bool kSumIsSeparable<A, B> = true;
template <Integer A, SeparableTile B>
inline constexpr bool kSumIsSeparable<A, B> = true;

template <typename A, typename B>
inline constexpr bool kDifferenceIsSeparable = kSumIsSeparable<A, B> && (AffineTile<B> || Integer<B>);
template <typename A, typename B>
inline constexpr bool kProductIsSeparable = (SeparableTile<A> && Integer<B>) || (Integer<A> && SeparableTile<B>);

}  // namespace kiln::tl
