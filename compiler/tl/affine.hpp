#pragma once

#include "compiler/tl/number.hpp"
#include "compiler/tl/shape.hpp"

namespace kiln::tl {

/// A stride that is known to the template. Contiguity is a type: Constant<1> along the columns.
template <int kValue>
struct Constant {
  KILN_DEVICE constexpr operator int64_t() const { return kValue; }
};

template <typename T>
inline constexpr bool is_constant = false;
template <int kValue>
inline constexpr bool is_constant<Constant<kValue>> = true;

template <int kA, int kB>
KILN_DEVICE constexpr Constant<kA + kB> add_strides(Constant<kA>, Constant<kB>) {
  return {};
}
template <typename B>
  requires(!is_constant<B>)
KILN_DEVICE constexpr B add_strides(Constant<0>, B b) {
  return b;
}
template <typename A>
  requires(!is_constant<A>)
KILN_DEVICE constexpr A add_strides(A a, Constant<0>) {
  return a;
}
template <typename A, typename B>
KILN_DEVICE constexpr int64_t add_strides(A a, B b) {
  return static_cast<int64_t>(a) + static_cast<int64_t>(b);
}
KILN_DEVICE constexpr Constant<0> scale_stride(Constant<0>, int64_t) {
  return {};
}
template <typename A>
KILN_DEVICE constexpr int64_t scale_stride(A a, int64_t factor) {
  return static_cast<int64_t>(a) * factor;
}
template <int kA, int kFactor>
KILN_DEVICE constexpr Constant<kA * kFactor> scale_stride(Constant<kA>, Constant<kFactor>) {
  return {};
}
template <int kA>
KILN_DEVICE constexpr Constant<-kA> negate_stride(Constant<kA>) {
  return {};
}
KILN_DEVICE constexpr int64_t negate_stride(int64_t a) {
  return -a;
}

/// A tile of integers base + row * row_stride + column * column_stride that stays symbolic until a load, a store or an
/// operation that is not affine consumes it: nothing is stored per element, and 16-byte accesses follow from the types
/// of the strides.
template <typename ShapeT, typename RowStride, typename ColumnStride>
struct Affine {
  using shape = ShapeT;
  using row_stride_type = RowStride;
  using column_stride_type = ColumnStride;

  int64_t base;
  RowStride row_stride;
  ColumnStride column_stride;

  KILN_DEVICE int64_t at(int row, int column) const {
    return base + row * static_cast<int64_t>(row_stride) + column * static_cast<int64_t>(column_stride);
  }
  /// The largest value over the whole tile.
  KILN_DEVICE int64_t largest() const {
    const int64_t down = (ShapeT::kRows - 1) * static_cast<int64_t>(row_stride);
    const int64_t across = (ShapeT::kColumns - 1) * static_cast<int64_t>(column_stride);
    return base + (down > 0 ? down : 0) + (across > 0 ? across : 0);
  }
};

template <typename T>
inline constexpr bool is_affine = false;
template <typename S, typename R, typename C>
inline constexpr bool is_affine<Affine<S, R, C>> = true;
template <typename T>
concept AffineTile = is_affine<T>;

/// kStart, ..., kEnd - 1. An axis of extent 1 has stride 0, so that it broadcasts as it stands.
template <int kStart, int kEnd>
KILN_DEVICE constexpr Affine<Shape<kEnd - kStart>, Constant<0>, Constant<(kEnd - kStart > 1)>> arange() {
  return {kStart, {}, {}};
}
/// 0, 1, ..., kN - 1.
template <int kN>
KILN_DEVICE constexpr auto arange() {
  return arange<0, kN>();
}

template <typename ShapeT, typename R, typename C>
KILN_DEVICE constexpr Affine<ShapeT, R, C> make_affine(int64_t base, R row_stride, C column_stride) {
  return {base, row_stride, column_stride};
}

template <int kAxis, int kN, typename R, typename C>
KILN_DEVICE constexpr auto expand_dims(const Affine<Shape<kN>, R, C>& a) {
  static_assert(kAxis == 0 || kAxis == 1, "expand_dims: the axis of a one-dimensional tile is 0 or 1");
  if constexpr (kAxis == 0)
    return make_affine<Shape<1, kN>>(a.base, Constant<0>{}, a.column_stride);
  else
    return make_affine<Shape<kN, 1>>(a.base, a.column_stride, Constant<0>{});
}

template <typename S, typename R, typename C, Integer I>
KILN_DEVICE constexpr Affine<S, R, C> operator+(const Affine<S, R, C>& a, I offset) {
  return {a.base + static_cast<int64_t>(offset), a.row_stride, a.column_stride};
}
template <typename S, typename R, typename C, Integer I>
KILN_DEVICE constexpr Affine<S, R, C> operator+(I offset, const Affine<S, R, C>& a) {
  return a + offset;
}
template <typename S, typename R, typename C, Integer I>
KILN_DEVICE constexpr Affine<S, R, C> operator-(const Affine<S, R, C>& a, I offset) {
  return {a.base - static_cast<int64_t>(offset), a.row_stride, a.column_stride};
}
template <typename S, typename R, typename C>
KILN_DEVICE constexpr auto operator-(const Affine<S, R, C>& a) {
  return make_affine<S>(-a.base, negate_stride(a.row_stride), negate_stride(a.column_stride));
}
template <typename S, typename R, typename C, Integer I>
KILN_DEVICE constexpr auto operator-(I from, const Affine<S, R, C>& a) {
  return -a + from;
}
template <typename S, typename R, typename C, Integer I>
KILN_DEVICE constexpr auto operator*(const Affine<S, R, C>& a, I factor) {
  const int64_t scale = static_cast<int64_t>(factor);
  return make_affine<S>(a.base * scale, scale_stride(a.row_stride, scale), scale_stride(a.column_stride, scale));
}
template <typename S, typename R, typename C, Integer I>
KILN_DEVICE constexpr auto operator*(I factor, const Affine<S, R, C>& a) {
  return a * factor;
}
template <typename SA, typename RA, typename CA, typename SB, typename RB, typename CB>
KILN_DEVICE constexpr auto operator+(const Affine<SA, RA, CA>& a, const Affine<SB, RB, CB>& b) {
  return make_affine<broadcast_shape_t<SA, SB>>(a.base + b.base, add_strides(a.row_stride, b.row_stride),
                                                add_strides(a.column_stride, b.column_stride));
}
template <typename SA, typename RA, typename CA, typename SB, typename RB, typename CB>
KILN_DEVICE constexpr auto operator-(const Affine<SA, RA, CA>& a, const Affine<SB, RB, CB>& b) {
  return a + (-b);
}

/// A tile of addresses: data + offsets, element by element.
template <typename T, typename OffsetsT>
struct PointerTile {
  using value_type = T;
  using shape = typename OffsetsT::shape;
  T* data;
  OffsetsT offsets;
};

template <typename T, AffineTile A>
KILN_DEVICE constexpr PointerTile<T, A> operator+(T* data, const A& offsets) {
  return {data, offsets};
}
template <typename T, AffineTile A, AffineTile B>
KILN_DEVICE constexpr auto operator+(const PointerTile<T, A>& pointers, const B& offsets) {
  return pointers.data + (pointers.offsets + offsets);
}
template <typename T, AffineTile A, Integer I>
KILN_DEVICE constexpr PointerTile<T, A> operator+(const PointerTile<T, A>& pointers, I offset) {
  return {pointers.data, pointers.offsets + offset};
}

}  // namespace kiln::tl
