#pragma once

#include "compiler/tl/cuda/mma_layout.hpp"
#include "compiler/tl/cuda/shared_tile.hpp"

namespace kiln::tl {

/// Reads a float operand four numbers of K at a time: kBlocks blocks of four rows (of a; columns, of b) of a lane,
/// which lie 4 * kLanes apart.
template <typename Shared, int kLanes, int kBlocks, bool kAlongK>
struct FmaReader {
  static constexpr int kChunksPerLine = Shared::kChunksPerLine;
  using Values = float[kBlocks * 4][4];  ///< [row][k]

  uint32_t lane_address;

  /// From a row (column) of the calling warp's part and element `k` on.
  KILN_DEVICE FmaReader(const Shared& tile, int first, int lane, int k) {
    const int outer = first + 4 * lane;
    const int chunk = kAlongK ? outer * kChunksPerLine + k / 4 : k * kChunksPerLine + outer / 4;
    lane_address = tile.address + SharedPlaces::offset(static_cast<unsigned int>(chunk));
  }

  KILN_DEVICE void read(int k, Values& values) const {
    KILN_UNROLL for (int block = 0; block < kBlocks; ++block) {
      KILN_UNROLL for (int i = 0; i < 4; ++i) {
        float chunk[4];
        const int outer = block * 4 * kLanes;
        load_shared_floats(
            moved_address(lane_address, static_cast<unsigned int>(kAlongK ? (outer + i) * kChunksPerLine + k / 4
                                                                          : (k + i) * kChunksPerLine + outer / 4)),
            chunk);
        KILN_UNROLL for (int j = 0; j < 4; ++j) values[block * 4 + (kAlongK ? i : j)][kAlongK ? j : i] = chunk[j];
      }
    }
  }
};

/// acc + a @ b in IEEE float, K in order, each product and sum rounded once.
template <typename A, typename B, ValueTile Acc>
KILN_DEVICE Acc dot_by_fma(const A& a, const B& b, const Acc& acc) {
  using L = typename Acc::layout;
  using ReaderA = FmaReader<A, L::kRowLanes, L::kRowBlocks, A::kRowsAreLines>;
  using ReaderB = FmaReader<B, L::kColumnLanes, L::kColumnBlocks, !B::kRowsAreLines>;
  // So much is unrolled that addresses take few of the instructions; all of K would compile for a second.
  constexpr int kTogether = 8;
  Acc result = acc;
  KILN_NO_UNROLL for (int first = 0; first < A::shape::kColumns; first += kTogether) {
    const ReaderA rows(a, L::Warps::row(), L::lane_row(), first);
    const ReaderB columns(b, L::Warps::column(), L::lane_column(), first);
    KILN_UNROLL for (int k = 0; k < kTogether; k += 4) {
      typename ReaderA::Values values_a;
      typename ReaderB::Values values_b;
      rows.read(k, values_a);
      columns.read(k, values_b);
      KILN_UNROLL for (int i = 0; i < 4; ++i) {
        KILN_UNROLL for (int row = 0; row < 4 * L::kRowBlocks; ++row) {
          KILN_UNROLL for (int column = 0; column < 4 * L::kColumnBlocks; ++column) {
            float& sum = result.registers[row * 4 * L::kColumnBlocks + column];
            sum = __fmaf_rn(values_a[row][i], values_b[column][i], sum);
          }
        }
      }
    }
  }
  return result;
}

}  // namespace kiln::tl
