#pragma once

#include "compiler/tl/cpu/matrix_view.hpp"

namespace kiln::tl {

/// A deferred load is an operand of dot where it lies in memory; only one whose mask is no rectangle, or whose rows or
/// columns are looked up or wrap, is loaded.
template <AddressTile P, typename M, TileLines kLines>
KILN_DEVICE decltype(auto) operand_of(const DeferredLoad<P, M, kLines>& x) {
  using T = pointee_t<P>;
  if constexpr (SeparableTile<decltype(x.pointers.offsets)>)
    return load_separable<T, typename DeferredLoad<P, M, kLines>::shape>(x.pointers.data, x.pointers.offsets, x.mask,
                                                                         T{});
  else if constexpr (is_rectangle<M>)
    return (x);
  else
    return load_affine<T, typename DeferredLoad<P, M, kLines>::shape>(x.pointers.data, x.pointers.offsets, x.mask, T{});
}
template <AddressTile P, typename M, TileLines kLines>
KILN_DEVICE auto view_of(const DeferredLoad<P, M, kLines>& x) {
  using S = typename DeferredLoad<P, M, kLines>::shape;
  using A = decltype(x.pointers.offsets);
  const auto [rows, columns] = extents_of(x.mask, {S::kRows, S::kColumns});
  return MatrixView<pointee_t<P>, typename A::row_stride_type, typename A::column_stride_type>{
      x.pointers.data + x.pointers.offsets.base, x.pointers.offsets.row_stride, x.pointers.offsets.column_stride, rows,
      columns};
}

template <typename P, typename M, TileLines kLines>
inline constexpr bool is_pipeline_tile<DeferredLoad<P, M, kLines>> = true;
template <typename P, typename M, TileLines kLines>
KILN_DEVICE auto to_values(const DeferredLoad<P, M, kLines>& x) {
  return load(x.pointers, x.mask);
}

/// Nothing is loaded ahead: dot reads the matrix where it lies, and the CPU's own prefetching covers the rest.
template <int kNumStages, typename Loads, typename Body>
KILN_DEVICE void run_pipeline(int64_t num_steps, Loads loads, Body body) {
  KILN_NO_UNROLL for (int64_t step = 0; step < num_steps; ++step) {
    const auto tiles = loads(step);
    constexpr int kTiles = kParts<remove_cvref_t<decltype(tiles)>>;
    call_with_parts<0>(body, tiles, make_sequence<kTiles == 0 ? 1 : kTiles>());
  }
}

template <int kNumStages, typename Loads, typename Body, typename End>
KILN_DEVICE void run_tiles(int64_t num_tiles, int64_t num_steps, Loads& loads, Body& body, End& end) {
  KILN_NO_UNROLL for (int64_t tile = 0; tile < num_tiles; ++tile) {
    run_pipeline<kNumStages>(num_steps, [&](int64_t step) { return loads(tile, step); }, body);
    end(tile);
  }
}

}  // namespace kiln::tl
