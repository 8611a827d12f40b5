#pragma once

#include "compiler/tl/cuda/mma_layout.hpp"
#include "compiler/tl/cuda/shared_tile.hpp"

namespace kiln::tl {

/// A lane's numbers of a float operand for a few steps of K: kBlocks blocks of four rows (of a; columns, of b), which
/// lie 4 * kLanes apart. A read of lines across K brings one step, and the next one's is on its way meanwhile; one of
/// lines along K brings four, which would take too many registers to read ahead.
template <typename Shared, int kLanes, int kBlocks, bool kAlongK>
struct FmaOperand {
  static constexpr int kChunksPerLine = Shared::kChunksPerLine;
  static constexpr int kAhead = kAlongK ? 0 : 1;
  static constexpr int kSteps = kAlongK ? 4 : 2;

  uint32_t lane_address;
  float values[kSteps][kBlocks * 4];

  /// From a row (column) of the calling warp's part and step `k`, a multiple of 8, on.
  KILN_DEVICE void move_to(const Shared& tile, int first, int lane, int k) {
    const int outer = first + 4 * lane;
    const int chunk = kAlongK ? outer * kChunksPerLine + k / 4 : k * kChunksPerLine + outer / 4;
    lane_address = tile.address + Shared::Places::offset(static_cast<unsigned int>(chunk));
  }

  /// Brings step k of the eight that move_to named, or the steps from k on.
  KILN_DEVICE void read(int k) {
    if constexpr (kAlongK) {
      if (k % 4 != 0) return;
      KILN_UNROLL for (int row = 0; row < 4 * kBlocks; ++row) {
        float chunk[4];
        read_chunk((row / 4 * 4 * kLanes + row % 4) * kChunksPerLine + k / 4, chunk);
        KILN_UNROLL for (int i = 0; i < 4; ++i) values[i][row] = chunk[i];
      }
    } else {
      KILN_UNROLL for (int block = 0; block < kBlocks; ++block) {
        float chunk[4];
        read_chunk(k * kChunksPerLine + block * kLanes, chunk);
        KILN_UNROLL for (int i = 0; i < 4; ++i) values[k % kSteps][4 * block + i] = chunk[i];
      }
    }
  }

 private:
  KILN_DEVICE void read_chunk(int chunk, float (&numbers)[4]) const {
    load_shared_floats(Shared::moved(lane_address, static_cast<unsigned int>(chunk)), numbers);
  }
};

/// acc + a @ b in IEEE float, K in order, each product and sum rounded once.
template <typename A, typename B, ValueTile Acc>
KILN_DEVICE Acc dot_by_fma(const A& a, const B& b, const Acc& acc) {
  using L = typename Acc::layout;
  constexpr int kK = A::shape::kColumns, kRows = 4 * L::kRowBlocks, kColumns = 4 * L::kColumnBlocks;
  // So much is unrolled that addresses take few of the instructions; all of K would compile for a second.
  constexpr int kTogether = 8;
  using Rows = FmaOperand<A, L::kRowLanes, L::kRowBlocks, A::kRowsAreLines>;
  using Columns = FmaOperand<B, L::kColumnLanes, L::kColumnBlocks, !B::kRowsAreLines>;
  Rows rows;
  Columns columns;
  const auto move_to = [&](int k) {
    rows.move_to(a, L::Warps::row(), L::lane_row(), k);
    columns.move_to(b, L::Warps::column(), L::lane_column(), k);
    if constexpr (Rows::kAhead != 0) rows.read(0);
    if constexpr (Columns::kAhead != 0) columns.read(0);
  };
  asm volatile("// kiln.f32_tiles");  // see BoxForm
  Acc result = acc;
  move_to(0);
  KILN_NO_UNROLL for (int first = 0; first < kK; first += kTogether) {
    KILN_UNROLL for (int k = 0; k < kTogether; ++k) {
      if (k + Rows::kAhead < kTogether) rows.read(k + Rows::kAhead);
      if (k + Columns::kAhead < kTogether) columns.read(k + Columns::kAhead);
      // What the last of all steps reads ahead is there, and nobody's.
      if (k == kTogether - 1) move_to((first + kTogether) % kK);
      // An instruction reads registers at full rate where one of its operands is the last one's too. Down and up pairs
      // of columns, nearly all are.
      KILN_UNROLL for (int pair = 0; pair < kColumns; pair += 2) {
        KILN_UNROLL for (int i = 0; i < 2 * kRows; ++i) {
          const int row = pair % 4 == 0 ? i / 2 : kRows - 1 - i / 2;
          const int column = pair + (i + i / 2) % 2;
          float& sum = result.registers[row * kColumns + column];
          sum = __fmaf_rn(rows.values[k % Rows::kSteps][row], columns.values[k % Columns::kSteps][column], sum);
        }
      }
    }
  }
  return result;
}

/// Sums that no dot adds to any more, in registers of their own. ptxas chooses registers so that the products' operands
/// come from both banks, but for sums that it wants where packets leave from or lanes swap: 128 x 128 sums of which
/// that is so multiply at 0.58 of their rate instead of 0.85. An or with 0, which no compiler sees, parts the two; a
/// copy does not, nor does a product with 1. Attention's scores pass here too: an instruction beside twice a head's
/// size of multiply-adds.
template <int kLater, typename S, typename... Computed>
KILN_DEVICE Tile<float, S, FmaLayout<S>> wait_for_products(const Tile<float, S, FmaLayout<S>>& sums,
                                                           const Computed&...) {
  uint32_t warp;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  const uint32_t zero = warp >> 16;
  return map_registers(
      [zero](float sum) { return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, sum) | zero); }, sums);
}

}  // namespace kiln::tl
