#pragma once

#include "compiler/tl/cast.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/redistribute.hpp"
#else
#include "compiler/tl/cpu/redistribute.hpp"
#endif

namespace kiln::tl {

/// The layout in which tiles that broadcast to ShapeT meet: the default one, or that of an accumulator of that shape.
template <typename ShapeT, ValueTile... Tiles>
struct MeetingLayout {
  using type = DefaultLayout<ShapeT>;
};
template <typename ShapeT, ValueTile First, ValueTile... Rest>
  requires(kIsMeetingLayout<typename First::layout>)
struct MeetingLayout<ShapeT, First, Rest...> {
  using type = conditional_t<is_same<typename First::shape, ShapeT>, typename First::layout,
                             typename MeetingLayout<ShapeT, Rest...>::type>;
};
template <typename ShapeT, ValueTile First, ValueTile... Rest>
  requires(!kIsMeetingLayout<typename First::layout>)
struct MeetingLayout<ShapeT, First, Rest...> : MeetingLayout<ShapeT, Rest...> {};

/// The tile broadcast to ShapeT, in its default layout or in LayoutT.
template <typename ShapeT, typename LayoutT = DefaultLayout<ShapeT>, ValueTile TileT>
KILN_DEVICE auto broadcast_to_shape(const TileT& x) {
  static_assert(is_same<broadcast_shape_t<typename TileT::shape, ShapeT>, ShapeT>,
                "this tile is larger than the shape it must broadcast to");
  if constexpr (is_same<TileT, Tile<typename TileT::value_type, ShapeT, LayoutT>>)
    return x;
  else
    return redistribute<ShapeT, LayoutT>(x);
}

/// The tile broadcast to kExtents..., NumPy's rule.
template <int... kExtents, ValueTile TileT>
KILN_DEVICE auto broadcast_to(const TileT& x) {
  return broadcast_to_shape<broadcast_shape_t<typename TileT::shape, Shape<kExtents...>>>(x);
}
template <int... kExtents, typename S, typename R, typename C>
KILN_DEVICE auto broadcast_to(const Affine<S, R, C>& x) {
  return make_affine<broadcast_shape_t<S, Shape<kExtents...>>>(x.base, x.row_stride, x.column_stride);
}

template <int... kExtents, AffineTile A>
KILN_DEVICE auto broadcast_to(const LessMask<A>& x) {
  return broadcast_to<kExtents...>(x.values) < static_cast<int64_t>(x.room);
}
template <int... kExtents, SymbolicMask A, SymbolicMask B>
KILN_DEVICE auto broadcast_to(const AndMask<A, B>& x) {
  return broadcast_to<kExtents...>(x.first) & broadcast_to<kExtents...>(x.second);
}
template <int... kExtents, SymbolicMask M>
KILN_DEVICE auto broadcast_to(const PartialMask<M>& x) {
  const auto mask = broadcast_to<kExtents...>(x.mask);
  return PartialMask<remove_const_t<decltype(mask)>>{mask};
}

}  // namespace kiln::tl
