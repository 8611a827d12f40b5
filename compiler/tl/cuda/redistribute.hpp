#pragma once

#include "compiler/tl/cast.hpp"

namespace kiln::tl {

/// Whether every register of layout L already holds its element of ShapeT's default layout.
template <typename L, typename ShapeT>
inline constexpr bool kBroadcastsInPlace = false;
template <int kAxis, typename ShapeT>
inline constexpr bool kBroadcastsInPlace<Expanded<kAxis, Slice<kAxis, ShapeT>>, ShapeT> = true;

/// Whether L is a layout of dot's sums, which other tiles take where they meet it.
template <typename L>
inline constexpr bool kIsAccumulatorLayout = false;

template <typename ShapeT, typename To, Number T, typename S, typename L>
KILN_DEVICE Tile<T, ShapeT, To> redistribute(const Tile<T, S, L>& x) {
  Tile<T, ShapeT, To> result;
  if constexpr (is_same<To, DefaultLayout<ShapeT>> && kBroadcastsInPlace<L, ShapeT>) {
    KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = x.registers[r];
  } else {
    static_assert(S::kNumel * sizeof(T) <= 48 * 1024,
                  "a tile that changes its layout must fit in 48 KiB of shared memory");
    __shared__ alignas(16) T buffer[S::kNumel];
    __syncthreads();
    KILN_UNROLL for (int r = 0; r < x.kRegisters; ++r) if (L::owns(r)) buffer[L::row(r) * S::kColumns + L::column(r)] =
        x.registers[r];
    __syncthreads();
    KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] =
        buffer[(S::kRows == 1 ? 0 : To::row(r)) * S::kColumns + (S::kColumns == 1 ? 0 : To::column(r))];
  }
  return result;
}

/// A unit axis put in at kAxis.
template <int kAxis, Number T, int kN, typename L>
KILN_DEVICE auto expand_dims(const Tile<T, Shape<kN>, L>& x) {
  Tile<T, expand_shape_t<Shape<kN>, kAxis>, Expanded<kAxis, L>> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = x.registers[r];
  return result;
}

}  // namespace kiln::tl
