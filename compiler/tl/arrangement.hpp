#pragma once

#include "compiler/tl/arithmetic.hpp"
#include "compiler/tl/tuple.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/arrange_tile.hpp"
#else
#include "compiler/tl/cpu/arrange_tile.hpp"
#endif

// The elements of tiles at other places. Operands are values or symbolic, which become values (indices of 64 bits).

namespace kiln::tl {

/// The axis of a tile of this shape as that of its one row, or of its rows and columns.
template <typename ShapeT, int kAxis>
constexpr int row_axis() {
  static_assert(kAxis >= -1 && kAxis < ShapeT::kRank,
                "the axis of a tile is 0, or 0 or 1 where it has two dimensions; -1 is the last");
  return ShapeT::kRank == 1 || kAxis == -1 ? 1 : kAxis;
}
/// A tile's shape with another number of rows (kAxis 0) or columns.
template <typename ShapeT, int kAxis, int kExtent>
struct WithExtent {
  using type = conditional_t<kAxis == 0, Shape<kExtent, ShapeT::kColumns>, Shape<ShapeT::kRows, kExtent>>;
};
template <int kN, int kAxis, int kExtent>
struct WithExtent<Shape<kN>, kAxis, kExtent> {
  using type = Shape<kExtent>;
};
template <typename ShapeT, int kAxis>
inline constexpr int kExtentAlong = kAxis == 0 ? ShapeT::kRows : ShapeT::kColumns;
template <typename ShapeT, int kAxis>
using doubled_t = typename WithExtent<ShapeT, kAxis, 2 * kExtentAlong<ShapeT, kAxis>>::type;
template <typename ShapeT, int kAxis>
using halved_t = typename WithExtent<ShapeT, kAxis, kExtentAlong<ShapeT, kAxis> / 2>::type;

/// f(a, b) with both broadcast to one shape.
template <AnyTile A, AnyTile B, typename F>
KILN_DEVICE auto in_one_shape(const A& a, const B& b, F f) {
  using VA = values_t<A>;
  using VB = values_t<B>;
  static_assert(is_same<typename VA::value_type, typename VB::value_type>,
                "join, interleave and cat: both tiles have one dtype; cast one of them");
  using S = broadcast_shape_t<typename VA::shape, typename VB::shape>;
  const auto whole = [](const auto& x) -> decltype(auto) {
    if constexpr (is_same<typename remove_cvref_t<decltype(x)>::shape, S>)
      return (x);
    else
      return broadcast_to_shape<S>(x);
  };
  return f(whole(to_values(a)), whole(to_values(b)));
}

/// The elements in row-major order as a tile of another shape of as many elements. (triton.language's reshape with
/// can_reorder=False.)
template <int... kExtents, AnyTile A>
KILN_DEVICE auto reshape(const A& a) {
  using To = Shape<kExtents...>;
  static_assert(A::shape::kNumel == To::kNumel, "reshape: the new shape has as many elements as the tile");
  return reshape_tile<To>(to_values(a));
}
/// A symbolic index of one dimension (or one row or column) stays symbolic.
template <int... kExtents, typename S, typename R, typename C>
  requires(S::kRows == 1 || S::kColumns == 1)
KILN_DEVICE constexpr auto reshape(const Affine<S, R, C>& x) {
  using To = Shape<kExtents...>;
  static_assert(S::kNumel == To::kNumel, "reshape: the new shape has as many elements as the tile");
  const auto step = [&] {
    if constexpr (S::kColumns == 1)
      return x.row_stride;
    else
      return x.column_stride;
  }();
  const auto down = [&] {
    if constexpr (To::kRows == 1)
      return Constant<0>{};
    else
      return scale_stride(step, Constant<To::kColumns>{});
  }();
  if constexpr (To::kColumns == 1)
    return make_affine<To>(x.base, down, Constant<0>{});
  else
    return make_affine<To>(x.base, down, step);
}

/// The two tiles along a new last axis of two: [N] and [N] become [N, 2]. Shapes broadcast. A tile has two dimensions
/// at most, so that tiles of two are interleaved or catenated instead.
template <AnyTile A, AnyTile B>
KILN_DEVICE auto join(const A& a, const B& b) {
  return in_one_shape(a, b, [](const auto& x, const auto& y) {
    using S = typename remove_cvref_t<decltype(x)>::shape;
    static_assert(S::kRank == 1,
                  "join: tiles of one dimension; of two, interleave gives [M, 2 * N] with elements by turns, and cat "
                  "one tile behind the other");
    return join_tiles<Shape<S::kColumns, 2>>(x, y);
  });
}
/// The reverse of join: the Tuple of the two columns of [N, 2], of shape [N] each. Neighbours in longer rows come apart
/// by deinterleave, halves by halves.
template <AnyTile A>
KILN_DEVICE auto split(const A& a) {
  using S = typename A::shape;
  static_assert(S::kRank == 2 && S::kColumns == 2,
                "split: a tile of two columns, [N, 2]; of [M, 2 * N], deinterleave gives the even and the odd columns "
                "and halves the first and the second half");
  return split_tile<Shape<S::kRows>>(to_values(a));
}

/// a's and b's elements by turns along the last axis: [N] and [N] become [2 * N], [M, N] and [M, N] become [M, 2 * N];
/// along axis 0 of tiles of two dimensions, rows by turns: [2 * M, N]. Shapes broadcast.
template <int kAxis = -1, AnyTile A, AnyTile B>
KILN_DEVICE auto interleave(const A& a, const B& b) {
  return in_one_shape(a, b, [](const auto& x, const auto& y) {
    using S = typename remove_cvref_t<decltype(x)>::shape;
    constexpr int kAlong = row_axis<S, kAxis>();
    return interleave_tiles<kAlong, doubled_t<S, kAlong>>(x, y);
  });
}
/// The reverse of interleave: the Tuple of the elements of even and of odd number along an axis. (In triton.language,
/// reshape to [M, N, 2] and split.)
template <int kAxis = -1, AnyTile A>
KILN_DEVICE auto deinterleave(const A& a) {
  using S = typename A::shape;
  constexpr int kAlong = row_axis<S, kAxis>();
  static_assert(kExtentAlong<S, kAlong> % 2 == 0, "deinterleave: the axis has an even number of elements");
  return deinterleave_tile<kAlong, halved_t<S, kAlong>>(to_values(a));
}

/// b behind a along an axis, in order: [N] and [K] become [N + K]. The other axis is as long in both.
template <int kAxis = 0, AnyTile A, AnyTile B>
KILN_DEVICE auto cat(const A& a, const B& b) {
  using VA = values_t<A>;
  using VB = values_t<B>;
  using SA = typename VA::shape;
  using SB = typename VB::shape;
  static_assert(is_same<typename VA::value_type, typename VB::value_type>,
                "join, interleave and cat: both tiles have one dtype; cast one of them");
  static_assert(SA::kRank == SB::kRank, "cat: both tiles have one or both have two dimensions");
  constexpr int kAlong = row_axis<SA, kAxis>();
  static_assert(kExtentAlong<SA, 1 - kAlong> == kExtentAlong<SB, 1 - kAlong>,
                "cat: the tiles are as long along the axis that they are not catenated along");
  using To = typename WithExtent<SA, kAlong, kExtentAlong<SA, kAlong> + kExtentAlong<SB, kAlong>>::type;
  return cat_tiles<kAlong, To>(to_values(a), to_values(b));
}
/// The reverse of cat of two tiles of one shape: the Tuple of the first and the second half along an axis.
template <int kAxis = 0, AnyTile A>
KILN_DEVICE auto halves(const A& a) {
  using S = typename A::shape;
  constexpr int kAlong = row_axis<S, kAxis>();
  static_assert(kExtentAlong<S, kAlong> % 2 == 0, "halves: the axis has an even number of elements");
  return halve_tile<kAlong, halved_t<S, kAlong>>(to_values(a));
}

}  // namespace kiln::tl
