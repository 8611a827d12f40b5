#pragma once

#include "compiler/tl/cast.hpp"
#include "compiler/tl/cuda/program.hpp"

namespace kiln::tl {

/// Whether every thread already holds what it needs of a tile of layout L for ShapeT in layout To: in register
/// To::row_part(r) for its register r, or in r itself.
template <typename L, typename ShapeT, typename To>
inline constexpr bool kBroadcastsInPlace = false;
template <int kAxis, typename ShapeT>
inline constexpr bool kBroadcastsInPlace<Expanded<kAxis, Slice<kAxis, ShapeT>>, ShapeT, DefaultLayout<ShapeT>> = true;

/// Whether L is a layout of dot's sums.
template <typename L>
inline constexpr bool kIsAccumulatorLayout = false;
/// Whether tiles of the default layout take L where they meet it.
template <typename L>
inline constexpr bool kIsMeetingLayout = kIsAccumulatorLayout<L>;

/// Shared memory for tiles on their way, the same at every call that asks for as much: a barrier must stand before it
/// is written.
template <int kBytes>
KILN_DEVICE unsigned char* shared_bytes() {
  __shared__ alignas(16) unsigned char bytes[kBytes];
  return bytes;
}
/// What larger tiles pass through in pieces.
inline constexpr int kMostScratchBytes = 16 * 1024;

/// The tile broadcast to ShapeT in layout To.
template <typename ShapeT, typename To, Number T, typename S, typename L>
KILN_DEVICE Tile<T, ShapeT, To> redistribute(const Tile<T, S, L>& x) {
  Tile<T, ShapeT, To> result;
  if constexpr (kBroadcastsInPlace<L, ShapeT, To> && is_same<To, DefaultLayout<ShapeT>>) {
    KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = x.registers[r];
  } else if constexpr (kBroadcastsInPlace<L, ShapeT, To>) {
    KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = x.registers[To::row_part(r)];
  } else {
    constexpr int kRowBytes = S::kColumns * static_cast<int>(sizeof(T));
    constexpr int kPieceRows = smaller(S::kRows, larger(1, kMostScratchBytes / kRowBytes));
    static_assert(kRowBytes <= 48 * 1024,
                  "a row of a tile that changes its layout must fit in 48 KiB of shared memory");
    T* const piece = reinterpret_cast<T*>(shared_bytes<kPieceRows * kRowBytes>());
    KILN_UNROLL for (int first = 0; first < S::kRows; first += kPieceRows) {
      const auto is_here = [&](int row) {
        return kPieceRows == S::kRows || (row >= first && row < first + kPieceRows);
      };
      sync_threads();  // an earlier piece may still be read
      KILN_UNROLL for (int r = 0; r < x.kRegisters; ++r) {
        const int row = L::row(r);
        if (L::owns(r) && is_here(row)) piece[(row - first) * S::kColumns + L::column(r)] = x.registers[r];
      }
      sync_threads();
      KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) {
        const int row = S::kRows == 1 ? 0 : To::row(r), column = S::kColumns == 1 ? 0 : To::column(r);
        if (is_here(row)) result.registers[r] = piece[(row - first) * S::kColumns + column];
      }
    }
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
