#pragma once

#include "compiler/tl/cpu/transpose_block.hpp"
#include "compiler/tl/tile.hpp"

namespace kiln::tl {

template <Number T, int kM, int kN>
KILN_DEVICE Tile<T, Shape<kN, kM>> trans_tile(const Tile<T, Shape<kM, kN>>& x) {
  using Block = TransposeBlock<T>;
  Tile<T, Shape<kN, kM>> result;
  if constexpr (kM >= Block::kSide && kN >= Block::kSide) {
    for (int row = 0; row < kM; row += Block::kSide)
      for (int column = 0; column < kN; column += Block::kSide)
        Block::run(x.registers + row * kN + column, kN, result.registers + column * kM + row, kM);
  } else {
    for (int column = 0; column < kN; ++column)
      for (int row = 0; row < kM; ++row) result.registers[column * kM + row] = x.registers[row * kN + column];
  }
  return result;
}

}  // namespace kiln::tl
