#pragma once

#include "compiler/tl/math.hpp"
#include "compiler/tl/tuple.hpp"

namespace kiln::tl {

/// Combines kCount neighbouring elements in 16 running partials, which vectorise without reassociating, then pairwise.
template <int kCount, typename Tiles, typename F>
KILN_DEVICE auto reduce_run(const Tiles& tiles, int first, F combine) {
  constexpr int kPartials = kCount < 16 ? kCount : 16;
  using S = Shape<kPartials>;
  auto partials = unset_tiles<S, Dense<S>>(tiles);
  for (int i = 0; i < kPartials; ++i) set_element(partials, i, element_of(tiles, first + i));
  for (int start = kPartials; start < kCount; start += kPartials)
    for (int i = 0; i < kPartials; ++i)
      set_element(partials, i, combine(element_of(partials, i), element_of(tiles, first + start + i)));
  for (int width = kPartials / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      set_element(partials, i, combine(element_of(partials, i), element_of(partials, i + width)));
  return element_of(partials, 0);
}

template <typename Tiles, typename F>
KILN_DEVICE auto reduce_all(const Tiles& tiles, F combine) {
  return reduce_run<shape_of_t<Tiles>::kNumel>(tiles, 0, combine);
}

template <int kAxis, typename Tiles, typename F>
KILN_DEVICE auto reduce_axis(const Tiles& tiles, F combine) {
  using S = shape_of_t<Tiles>;
  using Left = Shape<kAxis == 1 ? S::kRows : S::kColumns>;
  auto result = unset_tiles<Left, Dense<Left>>(tiles);
  if constexpr (kAxis == 1) {
    for (int row = 0; row < S::kRows; ++row)
      set_element(result, row, reduce_run<S::kColumns>(tiles, row * S::kColumns, combine));
  } else {
    for (int column = 0; column < S::kColumns; ++column) set_element(result, column, element_of(tiles, column));
    for (int row = 1; row < S::kRows; ++row)
      for (int column = 0; column < S::kColumns; ++column)
        set_element(result, column, combine(element_of(result, column), element_of(tiles, row * S::kColumns + column)));
  }
  return result;
}

}  // namespace kiln::tl
