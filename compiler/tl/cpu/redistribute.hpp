#pragma once

#include "compiler/tl/cast.hpp"

namespace kiln::tl {

/// There is one layout.
template <typename L>
inline constexpr bool kIsAccumulatorLayout = false;
template <typename L>
inline constexpr bool kIsMeetingLayout = false;

template <typename ShapeT, typename To, Number T, typename S, typename L>
KILN_DEVICE Tile<T, ShapeT, To> redistribute(const Tile<T, S, L>& x) {
  Tile<T, ShapeT, To> result;
  for (int row = 0; row < ShapeT::kRows; ++row)
    for (int column = 0; column < ShapeT::kColumns; ++column)
      result.registers[row * ShapeT::kColumns + column] =
          x.registers[(S::kRows == 1 ? 0 : row) * S::kColumns + (S::kColumns == 1 ? 0 : column)];
  return result;
}

/// A unit axis put in at kAxis.
template <int kAxis, Number T, int kN>
KILN_DEVICE Tile<T, expand_shape_t<Shape<kN>, kAxis>> expand_dims(const Tile<T, Shape<kN>>& x) {
  Tile<T, expand_shape_t<Shape<kN>, kAxis>> result;
  for (int r = 0; r < kN; ++r) result.registers[r] = x.registers[r];
  return result;
}

}  // namespace kiln::tl
