#pragma once

#include "compiler/tl/reduce.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/scan_tile.hpp"
#else
#include "compiler/tl/cpu/scan_tile.hpp"
#endif

namespace kiln::tl {

template <typename Tiles, int kAxis>
KILN_DEVICE constexpr bool scans_along_rows() {
  constexpr int kRank = shape_of_t<Tiles>::kRank;
  static_assert(kAxis >= 0 && kAxis < kRank, "a scan's axis is 0, or 0 or 1 of a two-dimensional tile");
  return kAxis == kRank - 1;
}

/// Running combinations along an axis of a tile, or of several tiles side by side (a Tuple of one shape): element i
/// becomes combine(... combine(combine(x[0], x[1]), x[2]) ..., x[i]), and with kReverse the same from the last element
/// back. combine(x, y) takes and returns numbers, or Tuples of numbers; it must be associative up to rounding and need
/// not be commutative: x is what comes first. The order depends on nothing but the tiles' shape and num_warps.
template <int kAxis, bool kReverse = false, typename Tiles, typename F>
KILN_DEVICE auto associative_scan(const Tiles& tiles, F combine) {
  const auto values = values_together(tiles);
  return scan_lines<scans_along_rows<Tiles, kAxis>(), kReverse, false>(values, combination_for(values, combine));
}
/// associative_scan with each line's total: the Tuple of both. The totals lie as reduce leaves them and cost next to
/// nothing; a loop over a long line carries them from tile to tile.
template <int kAxis, bool kReverse = false, typename Tiles, typename F>
KILN_DEVICE auto associative_scan_with_totals(const Tiles& tiles, F combine) {
  const auto values = values_together(tiles);
  return scan_lines<scans_along_rows<Tiles, kAxis>(), kReverse, true>(values, combination_for(values, combine));
}

/// Running sums along an axis, accumulated and returned in accumulator_t.
template <int kAxis = 0, bool kReverse = false, AnyTile A>
KILN_DEVICE auto cumsum(const A& a) {
  return associative_scan<kAxis, kReverse>(accumulators(a), SumOp{});
}
/// Running products along an axis, accumulated and returned in accumulator_t.
template <int kAxis = 0, bool kReverse = false, AnyTile A>
KILN_DEVICE auto cumprod(const A& a) {
  return associative_scan<kAxis, kReverse>(accumulators(a), ProdOp{});
}

}  // namespace kiln::tl
