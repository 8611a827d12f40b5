#pragma once

#include "compiler/tl/memory.hpp"
#include "compiler/tl/tuple.hpp"

namespace kiln::tl {

/// Which way a loaded tile lies in the GPU's shared memory: as in memory (along rows, or along columns where those are
/// contiguous by type), or as said.
enum class TileLines { as_in_memory, rows, columns };

/// A load that a pipeline makes when it is time: addresses and a mask.
template <AddressTile P, typename M, TileLines kTileLines>
struct DeferredLoad {
  using value_type = pointee_t<P>;
  using shape = typename AccessShape<P, M>::type;
  P pointers;
  M mask;
};

/// What tl::load(pointers, mask) takes, to be loaded by a pipeline; elements outside the mask are 0. The mask is
/// symbolic or a bool. Any strides and alignment are right. Fastest: rows or columns that are contiguous by type
/// (Constant<1>, as of tl::arange or, for rows, tl::trans) and 16-byte aligned.
///
/// Lines that are named turn a tile of float on its way, at no great cost, and make it take padded_tile_bytes: dot in
/// full precision reads a fastest in columns and b in rows. Other dots do not read such tiles. Nothing changes on the
/// CPU.
template <TileLines kLines = TileLines::as_in_memory, AddressTile P, typename M>
KILN_DEVICE auto deferred_load(const P& pointers, const M& mask) {
  static_assert(
      SymbolicIndex<decltype(pointers.offsets)>,
      "deferred_load: the addresses are a pointer plus indices that are symbolic, or are computed for whole rows "
      "or columns; add those to the pointer one after the other");
  static_assert(!ValueTile<M>, "deferred_load: the mask is symbolic or a bool");
  static_assert(P::shape::kRank == 2, "deferred_load: a tile of two dimensions; apply expand_dims first");
  static_assert(kLines == TileLines::as_in_memory || is_same<pointee_t<P>, float>,
                "deferred_load: only tiles of float lie otherwise than in memory");
  using S = typename AccessShape<P, M>::type;
  auto form = mask_for<S>(mask);
  return DeferredLoad<P, decltype(form), kLines>{pointers, form};
}
template <TileLines kLines = TileLines::as_in_memory, AddressTile P>
KILN_DEVICE auto deferred_load(const P& pointers) {
  return deferred_load<kLines>(pointers, true);
}

/// Whether it is what a pipeline's `loads` returns.
template <typename T>
inline constexpr bool is_deferred = false;
template <typename P, typename M, TileLines kLines>
inline constexpr bool is_deferred<DeferredLoad<P, M, kLines>> = true;
template <typename... T>
inline constexpr bool is_deferred<Tuple<T...>> = (is_deferred<T> && ...);

}  // namespace kiln::tl
