#pragma once

#include "compiler/tl/cuda/shared_tile.hpp"
#include "compiler/tl/debug.hpp"
#include "compiler/tl/mask_rectangle.hpp"

namespace kiln::tl {

/// kBytes (4, 8 or 16) from global to shared memory, in the background.
template <int kBytes>
KILN_DEVICE void copy_async(uint32_t to, const void* from) {
  if constexpr (kBytes == 16)
    asm volatile("{.reg .u64 a; cvta.to.global.u64 a, %1; cp.async.cg.shared.global.L2::128B [%0], [a], 16;}" ::"r"(to),
                 "l"(from)
                 : "memory");
  else
    asm volatile("{.reg .u64 a; cvta.to.global.u64 a, %1; cp.async.ca.shared.global [%0], [a], %2;}" ::"r"(to),
                 "l"(from), "n"(kBytes)
                 : "memory");
}
/// kBytes (4, 8 or 16), those from present_bytes on zeros, which are not read.
template <int kBytes>
KILN_DEVICE void copy_async(uint32_t to, const void* from, int present_bytes) {
  if constexpr (kBytes == 16)
    asm volatile(
        "{.reg .u64 a; cvta.to.global.u64 a, %1; cp.async.cg.shared.global.L2::128B [%0], [a], 16, %2;}" ::"r"(to),
        "l"(from), "r"(present_bytes)
        : "memory");
  else
    asm volatile("{.reg .u64 a; cvta.to.global.u64 a, %1; cp.async.ca.shared.global [%0], [a], %2, %3;}" ::"r"(to),
                 "l"(from), "n"(kBytes), "r"(present_bytes)
                 : "memory");
}
KILN_DEVICE void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until all but the last kPending groups have arrived.
template <int kPending>
KILN_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
/// The barrier's phase does not end before this thread's copies have arrived, those it has begun so far.
KILN_DEVICE void arrive_behind_copies(uint32_t barrier_address) {
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(barrier_address) : "memory");
}
template <Number T, int kCount>
KILN_DEVICE void store_chunk(uint32_t to, const T (&values)[kCount]) {
  uint4 chunk;
  memcpy(&chunk, values, sizeof chunk);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(chunk.x), "r"(chunk.y), "r"(chunk.z),
               "r"(chunk.w)
               : "memory");
  if constexpr (kHasWgmma) sm90::writes_ready();
}

/// One deferred load's way into shared memory, in chunks of 16 bytes dealt to threads along the tile's lines.
template <typename Deferred>
struct TileCopy;
template <typename P, typename M, TileLines kLines>
struct TileCopy<DeferredLoad<P, M, kLines>> {
  using Load = DeferredLoad<P, M, kLines>;
  using T = typename Load::value_type;
  using S = typename Load::shape;
  using Offsets = decltype(P::offsets);
  static constexpr bool kColumnsContiguous = is_same<typename Offsets::column_stride_type, Constant<1>>;
  static constexpr bool kRowsContiguous =
      !kColumnsContiguous && is_same<typename Offsets::row_stride_type, Constant<1>>;
  static constexpr bool kColumnsAreLines =
      kLines == TileLines::columns || (kLines == TileLines::as_in_memory && kRowsContiguous);
  static constexpr bool kContiguous = kColumnsAreLines ? kRowsContiguous : kColumnsContiguous;
  template <typename Step>
  using SharedIn = SharedTile<T, S, !kColumnsAreLines, kLines != TileLines::as_in_memory, Step>;
  using Shared = SharedIn<NoStep>;
  static constexpr int kSize = static_cast<int>(sizeof(T));
  static constexpr int kPerChunk = Shared::kPerChunk;
  static constexpr int kChunks = S::kNumel / kPerChunk;
  static constexpr int kRounds = (kChunks + kNumThreads - 1) / kNumThreads;
  static constexpr unsigned int kChunksPerLine = Shared::kChunksPerLine;
  static constexpr bool kHasFastPath = kContiguous;
  /// Whether edges are told by their extents rather than element by element, in registers that attention, whose tiles
  /// do not name their lines, does not have (f32 latents by eight warps and pages of 16 bits by two spilled).
  static constexpr bool kMeasuresEdges = kLines != TileLines::as_in_memory;
  static constexpr bool kThreadsMeet = false;  ///< all of them, in each copy
  struct Lane {};                              ///< what a thread keeps from one step's copy to the next one's

  Load load;
  const T* first;
  int64_t line_stride, step_stride;  ///< between lines, and between neighbours in a line
  const T* thread_first;             ///< the calling thread's first chunk, where lines are contiguous
  bool is_whole;                     ///< nothing missing, lines at multiples of 16 bytes

  KILN_DEVICE explicit TileCopy(const Load& deferred) : load(deferred) {
    const auto& offsets = deferred.pointers.offsets;
    first = deferred.pointers.data + offsets.base;
    line_stride =
        kColumnsAreLines ? static_cast<int64_t>(offsets.column_stride) : static_cast<int64_t>(offsets.row_stride);
    step_stride =
        kColumnsAreLines ? static_cast<int64_t>(offsets.row_stride) : static_cast<int64_t>(offsets.column_stride);
    thread_first = first + (static_cast<int64_t>(threadIdx.x / kChunksPerLine) * line_stride +
                            threadIdx.x % kChunksPerLine * kPerChunk);
    is_whole = (misalignment() == 0) & load.mask.all();
  }

  KILN_DEVICE static Lane lane() { return {}; }
  /// Whether the tile has this chunk; and whether the calling thread has any. Rounds come in batches of powers of two,
  /// of which the last can reach beyond a number of rounds that is none.
  KILN_DEVICE static bool has(unsigned int chunk) {
    return (kChunks % kNumThreads == 0 && is_power_of_two(kRounds)) || chunk < static_cast<unsigned int>(kChunks);
  }
  KILN_DEVICE static bool any() { return kChunks >= kNumThreads || has(threadIdx.x); }
  KILN_DEVICE bool in_mask(int line, int place) const {
    return kColumnsAreLines ? load.mask.at(place, line, 0) : load.mask.at(line, place, 0);
  }
  /// The lowest bits of the address and of the distance between lines.
  KILN_DEVICE uint64_t misalignment() const {
    return (reinterpret_cast<uint64_t>(first) | static_cast<uint64_t>(line_stride) * kSize) & 15;
  }

  /// How much of the tile is there, in lines and elements of a line, where that is a rectangle from its first element.
  struct Present {
    int lines, places;

    KILN_DEVICE int bytes_at(int line, int place) const {
      return line < lines ? smaller(larger(places - place, 0), kPerChunk) * kSize : 0;
    }
  };
  /// All of it.
  struct Everything {};
  KILN_DEVICE Present present() const {
    const Extents extents = extents_of(load.mask, Extents{S::kRows, S::kColumns});
    return kColumnsAreLines ? Present{extents.columns, extents.rows} : Present{extents.rows, extents.columns};
  }

  /// A tile with nothing missing, lines at multiples of kBytes.
  template <int kBytes, bool kUnrolled = kBytes == 16>
  KILN_DEVICE void copy_whole(uint32_t address) const {
    if constexpr (is_power_of_two(kChunksPerLine))
      copy_even<kBytes, kUnrolled ? kRounds : 1>(address, Everything{});
    else
      copy_uneven<kBytes>(address);
  }
  /// kTogether rounds in a turn of the loop.
  template <int kBytes, int kTogether, typename There>
  KILN_DEVICE void copy_even(uint32_t address, const There& there) const {
    if (!any()) return;
    const unsigned int thread = threadIdx.x;
    const uint32_t lane_address = address + Shared::Places::offset(thread);
    // One addition of 64 bits a round, where lines are no longer than a round.
    constexpr bool kWholeLines = kNumThreads % kChunksPerLine == 0;
    const int64_t round_stride = static_cast<int64_t>(kNumThreads / kChunksPerLine) * line_stride;
    const T* next = thread_first;
    const auto copy_round = [&](int round) {
      const unsigned int chunk = static_cast<unsigned int>(round * kNumThreads);
      if (kRounds > 1 && !has(chunk + thread)) return;
      const uint32_t to = Shared::moved(lane_address, chunk);
      const T* here = next;
      if constexpr (kWholeLines)
        next += round_stride;
      else
        here += static_cast<int64_t>(chunk / kChunksPerLine) * line_stride + chunk % kChunksPerLine * kPerChunk;
      if constexpr (is_same<There, Present>) {
        const int present = there.bytes_at(static_cast<int>((chunk + thread) / kChunksPerLine),
                                           static_cast<int>((chunk + thread) % kChunksPerLine) * kPerChunk);
        KILN_UNROLL for (int begin = 0; begin < 16; begin += kBytes) copy_async<kBytes>(
            to + static_cast<uint32_t>(begin), here + begin / kSize, smaller(larger(present - begin, 0), kBytes));
      } else {
        KILN_UNROLL for (int begin = 0; begin < 16; begin += kBytes)
            copy_async<kBytes>(to + static_cast<uint32_t>(begin), here + begin / kSize);
      }
    };
    constexpr int kTurns = kRounds / kTogether;
    static_assert(kTurns * kTogether == kRounds);
    if constexpr (kTurns == 1) {
      KILN_UNROLL for (int round = 0; round < kRounds; ++round) copy_round(round);
    } else {
      KILN_NO_UNROLL for (int turn = 0; turn < kTurns; ++turn)
          KILN_UNROLL for (int round = 0; round < kTogether; ++round) copy_round(turn * kTogether + round);
    }
  }

  /// Where a line's chunks are no power of two, places do not follow from those of a thread's first chunk.
  template <int kBytes>
  KILN_DEVICE void copy_uneven(uint32_t address) const {
    KILN_NO_UNROLL for (unsigned int chunk = threadIdx.x; chunk < static_cast<unsigned int>(kChunks);
                        chunk += kNumThreads) {
      const uint32_t to = address + Shared::Places::offset(chunk);
      const T* const from =
          first + (static_cast<int64_t>(chunk / kChunksPerLine) * line_stride + chunk % kChunksPerLine * kPerChunk);
      KILN_UNROLL for (int piece = 0; piece < 16 / kBytes; ++piece)
          copy_async<kBytes>(to + static_cast<uint32_t>(piece * kBytes), from + piece * (kBytes / kSize));
    }
  }

  /// A tile with elements missing, lines at multiples of kBytes.
  template <int kBytes>
  KILN_DEVICE void copy_partial(uint32_t address) const {
    if constexpr (kMeasuresEdges && is_rectangle<M> && is_power_of_two(kChunksPerLine)) {
      // Few at a time: each waits for its addresses, and all of them are long code.
      constexpr int kTogether = kRounds % 4 == 0 ? 4 : 1;
      copy_even<kBytes, kTogether>(address, present());
    } else {
      copy_masked<kBytes>(address);
    }
  }
  template <int kBytes>
  KILN_DEVICE void copy_masked(uint32_t address) const {
    if (!any()) return;
    KILN_NO_UNROLL for (int round = 0; round < kRounds; ++round) {
      const unsigned int chunk = static_cast<unsigned int>(round * kNumThreads) + threadIdx.x;
      if (kRounds > 1 && !has(chunk)) return;
      const int line = static_cast<int>(chunk / kChunksPerLine);
      const int place = static_cast<int>(chunk % kChunksPerLine) * kPerChunk;
      // What lies between two elements that a symbolic mask holds for, it holds for too.
      uint32_t wanted = (1u << kPerChunk) - 1;
      if (!in_mask(line, place) || !in_mask(line, place + kPerChunk - 1)) {
        wanted = 0;
        KILN_UNROLL for (int i = 0; i < kPerChunk; ++i) wanted |= in_mask(line, place + i) ? 1u << i : 0u;
      }
      const uint32_t to = address + Shared::Places::offset(chunk);
      const T* const from = first + (line * line_stride + place);
      if ((wanted & (wanted + 1)) == 0) {
        const int present = __popc(wanted) * kSize;
        KILN_UNROLL for (int begin = 0; begin < 16; begin += kBytes) copy_async<kBytes>(
            to + static_cast<uint32_t>(begin), from + begin / kSize, smaller(larger(present - begin, 0), kBytes));
      } else {
        // A mask that leaves out the first elements: the copy cannot zero those.
        T values[kPerChunk];
        KILN_UNROLL for (int i = 0; i < kPerChunk; ++i) values[i] = load_if((wanted >> i & 1) != 0, from + i, T{});
        store_chunk(to, values);
      }
    }
  }

  /// Elements that are on their way at the same time: all of a thread's where they are few, as are then its sums.
  static constexpr int kFewElements = 32;
  static constexpr bool kHasFewElements = kRounds * kPerChunk <= kFewElements;
  static constexpr int kBatch = kHasFewElements ? kRounds : smaller(kRounds, larger(1, kFewElements / 2 / kPerChunk));
  using Batch = T[kBatch][kPerChunk];

  KILN_DEVICE static unsigned int chunk_of(int round) {
    return static_cast<unsigned int>(round * kNumThreads) + threadIdx.x;
  }
  KILN_DEVICE void load_batch(int round, Batch& values) const {
    KILN_UNROLL for (int b = 0; b < kBatch; ++b) {
      const unsigned int chunk = chunk_of(round + b);
      const int line = static_cast<int>(chunk / kChunksPerLine);
      const int place = static_cast<int>(chunk % kChunksPerLine) * kPerChunk;
      const T* const from = first + (line * line_stride + place * step_stride);
      KILN_UNROLL for (int i = 0; i < kPerChunk; ++i) values[b][i] =
          load_if(has(chunk) && in_mask(line, place + i), from + i * step_stride, T{});
    }
  }
  KILN_DEVICE static void store_batch(uint32_t address, int round, const Batch& values) {
    if (!any()) return;
    KILN_UNROLL for (int b = 0; b < kBatch; ++b) {
      if (kRounds == 1 || has(chunk_of(round + b)))
        store_chunk(address + Shared::Places::offset(chunk_of(round + b)), values[b]);
    }
  }
  /// Any tile, element by element.
  KILN_DEVICE void copy_elements(uint32_t address) const {
    KILN_NO_UNROLL for (int round = 0; round < kRounds; round += kBatch) {
      Batch values;
      load_batch(round, values);
      store_batch(address, round, values);
    }
  }
  /// Whether a copy goes element by element.
  KILN_DEVICE bool takes_elements() const {
    if constexpr (!kContiguous) return kLines == TileLines::as_in_memory;
    const uint64_t misaligned = misalignment();
    return misaligned % 8 != 0 && (kSize > 4 || misaligned % 4 != 0);
  }

  /// A tile whose lines are at multiples of 4 bytes.
  KILN_DEVICE void copy_words(uint32_t address, bool whole) const {
    if constexpr (kSize <= 4) {
      if (whole)
        copy_whole<4>(address);
      else
        copy_partial<4>(address);
    }
  }

  /// Any tile, in less code than copy().
  KILN_DEVICE void copy_chunks(uint32_t address, Lane) const {
    if constexpr (kContiguous) {
      const uint64_t misaligned = misalignment();
      const bool whole = load.mask.all();
      if (whole && misaligned == 0) return copy_whole<16, false>(address);
      if (whole && misaligned % 8 == 0) return copy_whole<8>(address);
      if (whole && misaligned % 4 == 0) return copy_whole<larger(kSize, 4)>(address);
    }
    copy_elements(address);
  }

  /// A tile of floats that is turned: a warp's lanes copy eight elements each of four lines in memory, which are four
  /// elements each of eight lines here. No two of them meet in a bank.
  template <bool kWhole>
  KILN_DEVICE void copy_turned(uint32_t address) const {
    static_assert(is_power_of_two(S::kNumel) && Shared::kLines >= 8,
                  "deferred_load: a tile that names its lines has extents that are powers of two of 8 or more");
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    if (warp >= Shared::kChunksPerLine) return;
    const int line = lane % 8, place = warp * 4 + lane / 8;
    const uint32_t lane_address =
        address + Shared::Places::offset(static_cast<unsigned int>(line * Shared::kChunksPerLine + warp)) +
        static_cast<uint32_t>(lane / 8 * kSize);
    const T* const from = first + (line * line_stride + place * step_stride);
    const auto copy_section = [&](int section) {
      const T* const here = from + section * (4 * kNumWarps) * step_stride;
      KILN_UNROLL for (int lines = 0; lines < Shared::kLines; lines += 8) {
        const int moved = lines * Shared::kChunksPerLine + section * kNumWarps;
        const uint32_t to = Shared::moved(lane_address, static_cast<unsigned int>(moved));
        if constexpr (kWhole)
          copy_async<4>(to, here + lines * line_stride);
        else
          copy_async<4>(to, here + lines * line_stride,
                        in_mask(line + lines, place + section * (4 * kNumWarps)) ? kSize : 0);
      }
    };
    constexpr int kSections = larger(1, Shared::kChunksPerLine / kNumWarps);
    if constexpr (kWhole) {
      KILN_UNROLL for (int section = 0; section < kSections; ++section) copy_section(section);
    } else {
      KILN_NO_UNROLL for (int section = 0; section < kSections; ++section) copy_section(section);
    }
  }

  /// kFastPath: with a form for whole tiles, which others do too.
  template <bool kFastPath = true>
  KILN_DEVICE void copy(uint32_t address) const {
    if constexpr (kLines != TileLines::as_in_memory && !kContiguous) {
      if (__builtin_expect(load.mask.all(), 1))
        copy_turned<true>(address);
      else
        copy_turned<false>(address);
    } else if constexpr (kContiguous) {
      if (kFastPath && __builtin_expect(is_whole, 1)) return copy_whole<16>(address);
      const uint64_t misaligned = misalignment();
      const bool whole = load.mask.all();
      if (kMeasuresEdges && misaligned == 0 && whole)
        copy_whole<16, false>(address);
      else if (misaligned == 0)
        copy_partial<16>(address);
      else if (whole && misaligned % 8 == 0)
        copy_whole<8>(address);
      else if (kSize <= 4 && misaligned % 4 == 0)
        copy_words(address, whole);
      else
        copy_elements(address);
    } else {
      copy_elements(address);
    }
  }
};

}  // namespace kiln::tl
