#pragma once

#include "compiler/tl/cuda/mma.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/shared_tile.hpp"
#include "compiler/tl/cuda/turn_places.hpp"

namespace kiln::tl {

/// Turns parts of an operand, whose lines in shared memory lie across K, to a tile of kPlaceK elements of K whose lines
/// lie along it. float is rounded to tf32 on its way. All warps share the work.
template <typename From, bool kOfB, int kPlaceK>
struct TileTurn {
  using T = typename From::value_type;
  using S = typename From::shape;
  static constexpr int kTileOuter = kOfB ? S::kColumns : S::kRows;
  using To = SharedTile<T, conditional_t<kOfB, Shape<kPlaceK, kTileOuter>, Shape<kTileOuter, kPlaceK>>, !kOfB>;
  using Places = TurnPlaces<sizeof(T), kTileOuter>;
  static constexpr int kOuterBlocks = kTileOuter / Places::kOuter;
  static_assert(From::kRowsAreLines == kOfB, "lines lie along K already");
  static_assert(
      is_power_of_two(S::kNumel),
      "dot: an operand that is turned (of other than 16 bits, its lines across K) has extents that are powers "
      "of two");

  uint32_t from, to;  ///< of the calling lane, in its warp's first block
  int block;          ///< the warp's first
  uint32_t first_selector = 0, second_selector = 0;

  KILN_DEVICE TileTurn(const From& tile, const To& place) : block(static_cast<int>(threadIdx.x) / 32) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int outer = block % kOuterBlocks * Places::kOuter, k = block / kOuterBlocks * Places::kK;
    if constexpr (sizeof(T) == 1) {
      from = tile.address + From::Places::offset(from_chunk(k + Places::line_read(lane), outer));
      first_selector = Places::selector(lane, 0);
      second_selector = Places::selector(lane, 1);
    } else {
      const int lane_outer = outer + Places::place_read(lane);
      from = tile.address + From::Places::offset(from_chunk(k + Places::line_read(lane), lane_outer)) +
             static_cast<uint32_t>(lane_outer % From::kPerChunk * static_cast<int>(sizeof(T)));
    }
    to = place.address +
         To::Places::offset(to_chunk(outer + Places::line_written(lane), k) | Places::chunk_written(lane));
  }

  /// kK elements of K from `first` on, a multiple of kK, to those of the place from `first_to` on. Barriers stand
  /// before and after.
  template <int kK>
  KILN_DEVICE void turn(int first, int first_to) const {
    constexpr int kBlocks = kOuterBlocks * (kK / Places::kK), kRounds = larger(1, kBlocks / kNumWarps);
    constexpr int kBatch = smaller(kRounds, 4);  // on their way at once
    if (kBlocks < kNumWarps && block >= kBlocks) return;
    KILN_UNROLL for (int round = 0; round < kRounds; round += kBatch) {
      uint32_t words[kBatch][4];
      KILN_UNROLL for (int b = 0; b < kBatch; ++b) read(round + b, first, words[b]);
      KILN_UNROLL for (int b = 0; b < kBatch; ++b) write(round + b, first_to, words[b]);
    }
  }
  /// All of K, where place and tile are the same memory.
  KILN_DEVICE void turn_in_place() const {
    constexpr int kBlocks = kOuterBlocks * (kPlaceK / Places::kK), kRounds = larger(1, kBlocks / kNumWarps);
    const bool is_busy = kBlocks >= kNumWarps || block < kBlocks;
    uint32_t words[kRounds][4];
    if (is_busy) {
      KILN_UNROLL for (int round = 0; round < kRounds; ++round) read(round, 0, words[round]);
    }
    sync_threads();
    if (is_busy) {
      KILN_UNROLL for (int round = 0; round < kRounds; ++round) write(round, 0, words[round]);
    }
  }

 private:
  static constexpr unsigned int from_chunk(int k, int outer) {
    return static_cast<unsigned int>(k * From::kChunksPerLine + outer / From::kPerChunk);
  }
  static constexpr unsigned int to_chunk(int outer, int k) {
    return static_cast<unsigned int>(outer * To::kChunksPerLine + k / To::kPerChunk);
  }
  // Of the warp's block in this round, beyond its first.
  static constexpr int outer_of(int round) { return round * kNumWarps % kOuterBlocks * Places::kOuter; }
  static constexpr int k_of(int round) { return round * kNumWarps / kOuterBlocks * Places::kK; }

  KILN_DEVICE void read(int round, int first, uint32_t (&words)[4]) const {
    if constexpr (sizeof(T) == 1) {
      uint32_t pairs[4];
      load_matrices<true>(pairs, From::moved(from, from_chunk(first + k_of(round), outer_of(round))));
      KILN_UNROLL for (int i = 0; i < 4; ++i) words[i] =
          __byte_perm(pairs[i / 2 * 2], pairs[i / 2 * 2 + 1], i % 2 == 0 ? first_selector : second_selector);
    } else {
      KILN_UNROLL for (int i = 0; i < 4; ++i) {
        words[i] = load_shared_word(From::moved(from, from_chunk(first + k_of(round) + i, outer_of(round))));
        if constexpr (is_same<T, float>) words[i] = round_to_tf32(words[i]);
      }
    }
  }
  KILN_DEVICE void write(int round, int first, const uint32_t (&words)[4]) const {
    const uint32_t address = To::moved(to, to_chunk(outer_of(round), first + k_of(round)));
    if constexpr (sizeof(T) == 1)
      sm90::put_matrices(address, words);
    else
      sm90::put_shared(address, words);
  }
};

}  // namespace kiln::tl
