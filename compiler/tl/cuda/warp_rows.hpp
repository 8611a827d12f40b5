#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/pipeline_places.hpp"
#include "compiler/tl/cuda/sm90/shared_memory.hpp"
#include "compiler/tl/cuda/straddled.hpp"
#include "compiler/tl/cuda/wgmma_layout.hpp"

namespace kiln::tl {

/// Shared memory of the warp's own, the same for tiles of all shapes whose rows need so many bytes.
template <int kBytes>
KILN_DEVICE unsigned char* warp_rows_place() {
  __shared__ alignas(128) unsigned char rows[kNumWarps][kBytes];
  return rows[threadIdx.x / 32];
}

/// 16 bytes to global memory in one instruction: of an assignment beside elements that are stored singly the optimiser
/// may make four, which doubled the time of a tile's end.
KILN_DEVICE void store_quad(void* to, uint4 quad) {
  asm volatile("{.reg .u64 a; cvta.to.global.u64 a, %0; st.global.v4.b32 [a], {%1, %2, %3, %4};}" ::"l"(to),
               "r"(quad.x), "r"(quad.y), "r"(quad.z), "r"(quad.w)
               : "memory");
}

/// The 16 rows that a warp holds of a block of wgmma's sums, on their way to memory in runs of up to 128 bytes, by way
/// of shared memory of the warp's own. Lanes that swap what they hold were the alternative: 1700 instructions for a
/// tile of 128 x 256, a tenth of the time of a product with K of 4096. Elements of 2 bytes, and of 4 in whole lines of
/// 128 bytes. Runs are as long as those of which some make a row.
template <Number T, typename S>
struct WarpRows {
  using L = WgmmaLayout<S>;
  static constexpr int kRows = 16, kSize = static_cast<int>(sizeof(T));
  static constexpr int kColumns = smaller(128 / kSize, L::Grid::kColumns & -L::Grid::kColumns);
  static constexpr int kPanels = L::Grid::kColumns / kColumns;
  static constexpr int kPerChunk = 16 / kSize, kChunksPerRow = kColumns / kPerChunk;
  static constexpr int kChunksPerLane = kRows * kChunksPerRow / 32;
  static constexpr int kBytes = kRows * kColumns * kSize;
  /// Of float the built-in products spill, whose activations need registers beside the addresses of this. Where
  /// warpgroups share rows, few rows meet so many columns that shared memory is what a program is short of.
  static constexpr bool kPossible = L::kRowsInLanes && (kSize == 2 ? kRows * kChunksPerRow % 32 == 0
                                                                   : kSize == 4 && kChunksPerRow == 8 && !Floating<T>);

  KILN_DEVICE static uint32_t address() {
    return static_cast<uint32_t>(__cvta_generic_to_shared(warp_rows_place<kBytes>()));
  }
  KILN_DEVICE static uint32_t chunk_address(uint32_t base, int row, int chunk) {
    const auto number = static_cast<unsigned int>(row * kChunksPerRow + chunk);
    // Four rows' pairs of chunks lie in all banks, where eight rows' chunks do otherwise.
    if constexpr (kSize == 4) return base + (number ^ static_cast<unsigned int>(row % 4 * 2)) * 16;
    return base + PanelPlaces<kRows, kChunksPerRow>::offset(number);
  }

  /// Panel `panel` of block `block` of the tile.
  KILN_DEVICE static void put(uint32_t base, const T* registers, int block, int panel) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const T* const here = registers + block * L::kBlockRegisters + panel * (kColumns / 2);
    // Units of 8 columns, each of 8 rows and the next 8.
    if constexpr (kSize == 4) {
      KILN_UNROLL for (int i = 0; i < kColumns / 4; ++i) {
        T pair[2];
        memcpy(pair, here + 2 * i, sizeof pair);
        sm90::put_shared(chunk_address(base, i % 2 * 8 + lane / 4, i / 2 * 2 + lane % 4 / 2) + lane % 2 * 8, pair);
      }
    } else {
      KILN_UNROLL for (int unit = 0; unit < kColumns / 8; unit += 2) {
        uint32_t matrices[4];
        memcpy(matrices, here + 4 * unit, sizeof matrices);
        sm90::put_matrices(chunk_address(base, lane % 16, unit + lane / 16), matrices);
      }
    }
  }
  KILN_DEVICE static uint4 get(uint32_t base, int chunk) {
    return sm90::get_shared_quad(chunk_address(base, chunk / kChunksPerRow, chunk % kChunksPerRow));
  }
  /// The part of a row that lane `place` of those that share it stores where it starts off a packet, at `to`: the
  /// packet of memory that begins in this chunk, and of what is left in front of the first and behind the last its
  /// share.
  KILN_DEVICE static void store_straddling(uint32_t base, int row, int place, T* to) {
    const auto chunk_at = [&](int chunk) { return sm90::get_shared_quad(chunk_address(base, row, chunk)); };
    const int head = static_cast<int>(-reinterpret_cast<uint64_t>(to) & 15) / kSize;
    const bool is_last = place + 1 == kChunksPerRow;
    if (head == 0 || !is_last)
      store_quad(to + head + place * kPerChunk,
                 straddled<kSize>(chunk_at(place), chunk_at(is_last ? place : place + 1), head * kSize));
    if (head != 0) {
      KILN_UNROLL for (int i = place; i < kPerChunk; i += kChunksPerRow) {
        const int element = i < head ? i : kColumns - kPerChunk + i;
        to[element] = sm90::get_shared<T>(chunk_address(base, row, element / kPerChunk) + element % kPerChunk * kSize);
      }
    }
  }
};

/// Elements of a chunk of a row from `column` on, one by one: in a loop, for every panel has this, and unrolled it was
/// a tenth of a product's code.
template <Number T, AffineTile A, typename M>
KILN_DEVICE void store_elements(T* first, const A& offsets, const M& mask, int row, int column, uint4 chunk) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  T* const to = first + offset_of(offsets, row, column);
  KILN_NO_UNROLL for (int i = 0; i < 16 / kSize; ++i) {
    const auto bits = static_cast<typename BitsOf<kSize>::type>(chunk.x);
    store_if(mask.at(row, column + i, 0), to + i, __builtin_bit_cast(T, bits));
    if constexpr (kSize == 4)
      chunk = {chunk.y, chunk.z, chunk.w, 0};
    else
      chunk = {__byte_perm(chunk.x, chunk.y, 0x5432), __byte_perm(chunk.y, chunk.z, 0x5432),
               __byte_perm(chunk.z, chunk.w, 0x5432), chunk.w >> 16};
  }
}

/// store_affine of wgmma's sums, whose columns lie next to one another in memory.
template <Number T, typename S, AffineTile A, typename M>
KILN_DEVICE void store_warp_rows(T* data, const A& offsets, const Tile<T, S, WgmmaLayout<S>>& values, const M& mask) {
  using Rows = WarpRows<T, S>;
  using L = WgmmaLayout<S>;
  T* const first = data + offsets.base;
  const uint64_t row_bytes = static_cast<uint64_t>(static_cast<int64_t>(offsets.row_stride)) * sizeof(T);
  const bool aligned = ((reinterpret_cast<uint64_t>(first) | row_bytes) & 15) == 0;
  const bool whole = aligned && mask.all();
  const uint32_t base = Rows::address();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp_row = L::Grid::row() + static_cast<int>(threadIdx.x) % 128 / 32 * Rows::kRows;
  KILN_UNROLL for (int block = 0; block < L::kRowBlocks; ++block) {
    KILN_UNROLL for (int panel = 0; panel < Rows::kPanels; ++panel) {
      const int top = warp_row + 64 * block, left = L::Grid::column() + panel * Rows::kColumns;
      __syncwarp();  // the panel before may still be read
      Rows::put(base, values.registers, block, panel);
      __syncwarp();
      const auto store_chunk_at = [&](int i, bool is_whole) {
        const int chunk = i * 32 + lane;
        const int row = top + chunk / Rows::kChunksPerRow;
        const int column = left + chunk % Rows::kChunksPerRow * Rows::kPerChunk;
        const uint4 bits = Rows::get(base, chunk);
        // What lies between two elements that a symbolic mask holds for, it holds for too.
        if (!aligned && mask.at(row, left, 0) && mask.at(row, left + Rows::kColumns - 1, 0))
          Rows::store_straddling(base, row - top, chunk % Rows::kChunksPerRow, first + offset_of(offsets, row, left));
        else if (is_whole || (aligned && mask.at(row, column, 0) && mask.at(row, column + Rows::kPerChunk - 1, 0)))
          store_quad(first + offset_of(offsets, row, column), bits);
        else
          store_elements(first, offsets, mask, row, column, bits);
      };
      if (__builtin_expect(whole, 1)) {
        KILN_UNROLL for (int i = 0; i < Rows::kChunksPerLane; ++i) store_chunk_at(i, true);
      } else {
        KILN_NO_UNROLL for (int i = 0; i < Rows::kChunksPerLane; ++i) store_chunk_at(i, false);
      }
    }
  }
}

}  // namespace kiln::tl
