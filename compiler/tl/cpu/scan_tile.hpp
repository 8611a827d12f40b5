#pragma once

#include "compiler/tl/reduce.hpp"

namespace kiln::tl {

/// Each element replaced by the combination of its line up to and with it, from
/// the end on for kReverse. kWithTotals: the Tuple of that and of what reduce
/// would give.
template <bool kAlongRows, bool kReverse, bool kWithTotals, typename Tiles, typename F>
KILN_DEVICE auto scan_lines(const Tiles& tiles, F combine) {
  using S = shape_of_t<Tiles>;
  constexpr int kStep = (kAlongRows ? 1 : S::kColumns) * (kReverse ? -1 : 1);
  constexpr int kFirst = !kReverse ? 0 : kAlongRows ? S::kColumns - 1 : S::kColumns * (S::kRows - 1);
  Tiles result = tiles;
  if constexpr (kAlongRows) {
    for (int row = 0; row < S::kRows; ++row) {
      int r = row * S::kColumns + kFirst;
      auto running = element_of(tiles, r);
      for (int i = 1; i < S::kColumns; ++i) {
        r += kStep;
        running = combine(running, element_of(tiles, r));
        set_element(result, r, running);
      }
    }
  } else {
    for (int i = 1; i < S::kRows; ++i)
      for (int column = 0; column < S::kColumns; ++column) {
        const int r = kFirst + i * kStep + column;
        set_element(result, r, combine(element_of(result, r - kStep), element_of(tiles, r)));
      }
  }
  if constexpr (kWithTotals) {
    // Each line's last element in its order.
    constexpr int kLast = kReverse ? 0 : kAlongRows ? S::kColumns - 1 : S::kColumns * (S::kRows - 1);
    if constexpr (S::kRank == 1) {
      return Tuple{result, element_of(result, kLast)};
    } else {
      using Left = Shape<kAlongRows ? S::kRows : S::kColumns>;
      auto last = unset_tiles<Left, Dense<Left>>(tiles);
      for (int line = 0; line < Left::kNumel; ++line)
        set_element(last, line, element_of(result, line * (kAlongRows ? S::kColumns : 1) + kLast));
      return Tuple{result, last};
    }
  } else {
    return result;
  }
}

}  // namespace kiln::tl
