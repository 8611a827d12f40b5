#pragma once

#include "compiler/tl/math.hpp"

namespace kiln::tl {

/// Combines kCount values side by side in 16 running partials, which vectorise without reassociating, then pairwise.
template <typename Op, int kCount, Number T>
KILN_DEVICE T reduce_run(const T* values) {
  constexpr int kPartials = kCount < 16 ? kCount : 16;
  T partials[kPartials];
  for (int i = 0; i < kPartials; ++i) partials[i] = values[i];
  for (int start = kPartials; start < kCount; start += kPartials)
    for (int i = 0; i < kPartials; ++i) partials[i] = Op::combine(partials[i], values[start + i]);
  for (int width = kPartials / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) partials[i] = Op::combine(partials[i], partials[i + width]);
  return partials[0];
}

template <typename Op, Number T, typename S, typename L>
KILN_DEVICE T reduce_all(const Tile<T, S, L>& x) {
  return reduce_run<Op, S::kNumel>(x.registers);
}

template <typename Op, int kAxis, Number T, int kM, int kN, typename L>
KILN_DEVICE auto reduce_axis(const Tile<T, Shape<kM, kN>, L>& x) {
  static_assert(kAxis == 0 || kAxis == 1, "the axis of a two-dimensional tile is 0 or 1");
  if constexpr (kAxis == 1) {
    Tile<T, Shape<kM>> result;
    for (int row = 0; row < kM; ++row) result.registers[row] = reduce_run<Op, kN>(x.registers + row * kN);
    return result;
  } else {
    Tile<T, Shape<kN>> result;
    for (int column = 0; column < kN; ++column) result.registers[column] = x.registers[column];
    for (int row = 1; row < kM; ++row)
      for (int column = 0; column < kN; ++column)
        result.registers[column] = Op::combine(result.registers[column], x.registers[row * kN + column]);
    return result;
  }
}

}  // namespace kiln::tl
