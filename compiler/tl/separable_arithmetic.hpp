#pragma once

#include "compiler/tl/arithmetic.hpp"

namespace kiln::tl {

template <typename Rows, typename Columns, AffineTile A>
KILN_DEVICE Separable<Rows, Columns, A> make_separable(const Rows& rows, const Columns& columns, const A& affine) {
  return {rows, columns, affine};
}

template <SeparableTile X>
KILN_DEVICE const X& as_separable(const X& x) {
  return x;
}
template <AffineTile X>
KILN_DEVICE auto as_separable(const X& x) {
  return make_separable(NoAxis{}, NoAxis{}, x);
}
template <ValueTile X>
KILN_DEVICE auto as_separable(const X& x) {
  const auto nothing = make_affine<typename X::shape>(0, Constant<0>{}, Constant<0>{});
  if constexpr (X::shape::kColumns == 1)
    return make_separable(cast<int64_t>(x), NoAxis{}, nothing);
  else
    return make_separable(NoAxis{}, cast<int64_t>(x), nothing);
}

template <typename A, typename B>
KILN_DEVICE auto add_axes(const A& a, const B& b) {
  if constexpr (is_same<A, NoAxis>)
    return b;
  else if constexpr (is_same<B, NoAxis>)
    return a;
  else
    return a + b;
}
KILN_DEVICE NoAxis scale_axis(NoAxis, int64_t) {
  return {};
}
template <typename Stride>
KILN_DEVICE auto scale_axis(const WrappedAxis<Stride>& axis, int64_t factor) {
  const auto stride = scale_stride(axis.stride, factor);
  return WrappedAxis<remove_const_t<decltype(stride)>>{axis.start, axis.bound, stride};
}
template <ValueTile T>
KILN_DEVICE auto scale_axis(const T& axis, int64_t factor) {
  return axis * factor;
}

template <typename A, typename B>
  requires(kSumIsSeparable<A, B>)
KILN_DEVICE auto operator+(const A& a, const B& b) {
  if constexpr (Integer<B>) {
    return make_separable(a.rows, a.columns, a.affine + b);
  } else if constexpr (Integer<A>) {
    return make_separable(b.rows, b.columns, a + b.affine);
  } else {
    const auto& x = as_separable(a);
    const auto& y = as_separable(b);
    return make_separable(add_axes(x.rows, y.rows), add_axes(x.columns, y.columns), x.affine + y.affine);
  }
}
template <typename A, typename B>
  requires(kDifferenceIsSeparable<A, B>)
KILN_DEVICE auto operator-(const A& a, const B& b) {
  if constexpr (Integer<B>)
    return make_separable(a.rows, a.columns, a.affine - b);
  else
    return a + (-b);
}
template <typename A, typename B>
  requires(kProductIsSeparable<A, B>)
KILN_DEVICE auto operator*(const A& a, const B& b) {
  if constexpr (Integer<A>) {
    return b * a;
  } else {
    const auto factor = static_cast<int64_t>(b);
    return make_separable(scale_axis(a.rows, factor), scale_axis(a.columns, factor), a.affine * factor);
  }
}

/// Places one after the other, wrapped round at n: contiguous where none is.
template <int kN, Integer I>
KILN_DEVICE auto operator%(const Affine<Shape<kN>, Constant<0>, Constant<1>>& x, I n) {
  return make_separable(NoAxis{}, WrappedAxis<Constant<1>>{x.base, static_cast<int64_t>(n), {}},
                        make_affine<Shape<kN>>(0, Constant<0>{}, Constant<0>{}));
}
template <int kN, Integer I>
KILN_DEVICE auto operator%(const Affine<Shape<1, kN>, Constant<0>, Constant<1>>& x, I n) {
  return make_separable(NoAxis{}, WrappedAxis<Constant<1>>{x.base, static_cast<int64_t>(n), {}},
                        make_affine<Shape<1, kN>>(0, Constant<0>{}, Constant<0>{}));
}
template <int kM, Integer I>
KILN_DEVICE auto operator%(const Affine<Shape<kM, 1>, Constant<1>, Constant<0>>& x, I n) {
  return make_separable(WrappedAxis<Constant<1>>{x.base, static_cast<int64_t>(n), {}}, NoAxis{},
                        make_affine<Shape<kM, 1>>(0, Constant<0>{}, Constant<0>{}));
}

template <int kAxis, typename C, typename A>
  requires(A::shape::kRank == 1)
KILN_DEVICE auto expand_dims(const Separable<NoAxis, C, A>& x) {
  if constexpr (kAxis == 0)
    return make_separable(NoAxis{}, x.columns, expand_dims<0>(x.affine));
  else
    return make_separable(x.columns, NoAxis{}, expand_dims<1>(x.affine));
}

template <typename Rows, typename Columns, typename A>
KILN_DEVICE auto to_values(const Separable<Rows, Columns, A>& x) {
  using S = typename A::shape;
  using L = DefaultLayout<S>;
  Tile<int64_t, S> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) {
    result.registers[r] = x.affine.at(L::row(r), L::column(r));
    if constexpr (!is_tile<Rows>) result.registers[r] += x.rows.at(L::row(r));
    if constexpr (!is_tile<Columns>) result.registers[r] += x.columns.at(L::column(r));
  }
  if constexpr (is_tile<Rows> && is_tile<Columns>)
    return broadcast_to_shape<S>(result + x.rows + x.columns);
  else if constexpr (is_tile<Rows>)
    return broadcast_to_shape<S>(result + x.rows);
  else if constexpr (is_tile<Columns>)
    return broadcast_to_shape<S>(result + x.columns);
  else
    return result;
}
template <Number To, SeparableTile X>
KILN_DEVICE auto cast(const X& x) {
  return cast<To>(to_values(x));
}
template <int... kExtents, SeparableTile X>
KILN_DEVICE auto broadcast_to(const X& x) {
  return broadcast_to<kExtents...>(to_values(x));
}

template <typename T, SeparableTile X>
KILN_DEVICE PointerTile<T, X> operator+(T* data, const X& offsets) {
  return {data, offsets};
}

}  // namespace kiln::tl
