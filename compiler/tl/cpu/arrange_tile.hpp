#pragma once

#include "compiler/tl/broadcast.hpp"

namespace kiln::tl {

template <typename To, Number T, typename S>
KILN_DEVICE Tile<T, To> reshape_tile(const Tile<T, S>& x) {
  Tile<T, To> result;
  for (int r = 0; r < To::kNumel; ++r) result.registers[r] = x.registers[r];
  return result;
}

template <typename To, Number T, typename S>
KILN_DEVICE Tile<T, To> join_tiles(const Tile<T, S>& a, const Tile<T, S>& b) {
  Tile<T, To> result;
  for (int r = 0; r < S::kNumel; ++r) {
    result.registers[2 * r] = a.registers[r];
    result.registers[2 * r + 1] = b.registers[r];
  }
  return result;
}

/// Whole rows by turns, or elements.
template <int kAxis, typename To, Number T, typename S>
KILN_DEVICE Tile<T, To> interleave_tiles(const Tile<T, S>& a, const Tile<T, S>& b) {
  if constexpr (kAxis == 1) {
    return join_tiles<To>(a, b);
  } else {
    Tile<T, To> result;
    for (int row = 0; row < S::kRows; ++row)
      for (int column = 0; column < S::kColumns; ++column) {
        T* const to = result.registers + 2 * row * S::kColumns + column;
        to[0] = a.registers[row * S::kColumns + column];
        to[S::kColumns] = b.registers[row * S::kColumns + column];
      }
    return result;
  }
}

template <typename To, Number T, typename S>
KILN_DEVICE auto split_tile(const Tile<T, S>& x) {
  Tuple<Tile<T, To>, Tile<T, To>> result;
  for (int r = 0; r < To::kNumel; ++r) {
    result.first.registers[r] = x.registers[2 * r];
    result.second.registers[r] = x.registers[2 * r + 1];
  }
  return result;
}

template <int kAxis, typename To, Number T, typename S>
KILN_DEVICE auto deinterleave_tile(const Tile<T, S>& x) {
  if constexpr (kAxis == 1) {
    return split_tile<To>(x);
  } else {
    Tuple<Tile<T, To>, Tile<T, To>> result;
    for (int row = 0; row < To::kRows; ++row)
      for (int column = 0; column < To::kColumns; ++column) {
        const T* const from = x.registers + 2 * row * To::kColumns + column;
        result.first.registers[row * To::kColumns + column] = from[0];
        result.second.registers[row * To::kColumns + column] = from[To::kColumns];
      }
    return result;
  }
}

template <int kAxis, typename To, Number T, typename SA, typename SB>
KILN_DEVICE Tile<T, To> cat_tiles(const Tile<T, SA>& a, const Tile<T, SB>& b) {
  Tile<T, To> result;
  constexpr int kDown = kAxis == 0 ? SA::kRows : 0, kAcross = kAxis == 1 ? SA::kColumns : 0;
  for (int row = 0; row < SA::kRows; ++row)
    for (int column = 0; column < SA::kColumns; ++column)
      result.registers[row * To::kColumns + column] = a.registers[row * SA::kColumns + column];
  for (int row = 0; row < SB::kRows; ++row)
    for (int column = 0; column < SB::kColumns; ++column)
      result.registers[(row + kDown) * To::kColumns + column + kAcross] = b.registers[row * SB::kColumns + column];
  return result;
}

template <int kAxis, typename To, Number T, typename S>
KILN_DEVICE auto halve_tile(const Tile<T, S>& x) {
  Tuple<Tile<T, To>, Tile<T, To>> result;
  constexpr int kBetween = kAxis == 0 ? To::kNumel : To::kColumns;
  for (int row = 0; row < To::kRows; ++row)
    for (int column = 0; column < To::kColumns; ++column) {
      result.first.registers[row * To::kColumns + column] = x.registers[row * S::kColumns + column];
      result.second.registers[row * To::kColumns + column] = x.registers[row * S::kColumns + column + kBetween];
    }
  return result;
}

}  // namespace kiln::tl
