#pragma once

#include "compiler/tl/deferred_load.hpp"
#include "compiler/tl/memory.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/copy_interleaved.hpp"
#include "compiler/tl/cuda/copy_transposed.hpp"
#include "compiler/tl/cuda/trans_tile.hpp"
#else
#include "compiler/tl/cpu/copy_interleaved.hpp"
#include "compiler/tl/cpu/copy_transposed.hpp"
#include "compiler/tl/cpu/trans_tile.hpp"
#endif

namespace kiln::tl {

template <typename ShapeT>
struct TransposedShape {
  static_assert(ShapeT::kRank == 2, "trans: a tile of two dimensions; apply expand_dims first");
  using type = Shape<ShapeT::kColumns, ShapeT::kRows>;
};
template <typename ShapeT>
using transposed_shape_t = typename TransposedShape<ShapeT>::type;

/// A value's rows as columns, in the default layout; on the GPU by way of shared memory (at most 32 KiB).
template <ValueTile TileT>
KILN_DEVICE Tile<typename TileT::value_type, transposed_shape_t<typename TileT::shape>> trans(const TileT& x) {
  return trans_tile(x);
}

template <PipelineTile TileT>
KILN_DEVICE auto trans(const TileT& x) {
  return trans(to_values(x));
}

/// Symbolic indices, addresses and masks stay symbolic: their strides change places.
template <typename S, typename R, typename C>
KILN_DEVICE constexpr Affine<transposed_shape_t<S>, C, R> trans(const Affine<S, R, C>& x) {
  return {x.base, x.column_stride, x.row_stride};
}
template <typename Rows, typename Columns, typename A>
KILN_DEVICE auto trans(const Separable<Rows, Columns, A>& x) {
  const auto turned = [](const auto& axis) {
    if constexpr (ValueTile<remove_cvref_t<decltype(axis)>>)
      return trans_tile(axis);
    else
      return axis;
  };
  return make_separable(turned(x.columns), turned(x.rows), trans(x.affine));
}
template <typename T, SymbolicIndex A>
KILN_DEVICE constexpr auto trans(const PointerTile<T, A>& x) {
  return x.data + trans(x.offsets);
}
template <AffineTile A>
KILN_DEVICE auto trans(const LessMask<A>& x) {
  return trans(x.values) < static_cast<int64_t>(x.room);
}
template <typename A, typename B>
KILN_DEVICE auto trans(const AndMask<A, B>& x) {
  return trans(x.first) & trans(x.second);
}
template <typename M>
KILN_DEVICE auto trans(const PartialMask<M>& x) {
  const auto mask = trans(x.mask);
  return PartialMask<remove_const_t<decltype(mask)>>{mask};
}

/// What is deferred is loaded transposed, as it lies in memory.
template <typename P, typename M>
KILN_DEVICE auto trans(const DeferredLoad<P, M, TileLines::as_in_memory>& x) {
  if constexpr (requires { trans(x.mask); })
    return deferred_load(trans(x.pointers), trans(x.mask));
  else
    return deferred_load(trans(x.pointers), x.mask);  // the same for all elements
}

}  // namespace kiln::tl
