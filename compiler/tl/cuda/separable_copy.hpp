#pragma once

#include "compiler/tl/cuda/dealt_lines.hpp"
#include "compiler/tl/cuda/separable_access.hpp"
#include "compiler/tl/cuda/tile_copy.hpp"

namespace kiln::tl {

/// A deferred load at separable addresses. Where nothing wraps it is affine; elsewhere its lines are copied 16 bytes
/// at a time as far as they are contiguous and aligned.
template <typename T_, typename Rows, typename Columns, typename A, typename M, TileLines kLines>
struct TileCopy<DeferredLoad<PointerTile<T_, Separable<Rows, Columns, A>>, M, kLines>> {
  using Load = DeferredLoad<PointerTile<T_, Separable<Rows, Columns, A>>, M, kLines>;
  using X = Separable<Rows, Columns, A>;
  using AffineForm = decltype(static_cast<const X*>(nullptr)->as_affine());
  using AffineLoad = DeferredLoad<PointerTile<T_, AffineForm>, M, kLines>;
  using Straight = TileCopy<AffineLoad>;
  using T = typename Straight::T;
  using S = typename Straight::S;
  template <typename Step>
  using SharedIn = typename Straight::template SharedIn<Step>;
  using Shared = typename Straight::Shared;
  static constexpr int kSize = Straight::kSize, kPerChunk = Straight::kPerChunk;
  static constexpr bool kColumnsAreLines = Straight::kColumnsAreLines, kContiguous = Straight::kContiguous;
  static constexpr bool kHasFastPath = false, kHasFewElements = false;
  using Lines = DealtLines<kColumnsAreLines, Shared::kLines, Shared::kChunksPerLine,
                           conditional_t<kColumnsAreLines, Columns, Rows>>;
  // Also where a warp's lanes tell each other: numbers of lines may themselves be made by all threads.
  static constexpr bool kThreadsMeet = is_tile<Rows> || is_tile<Columns>;
  static_assert(kLines == TileLines::as_in_memory || X::kMayBeAffine,
                "deferred_load: a tile whose rows or columns are looked up lies in shared memory as in memory");

  using Lane = typename Lines::Lane;

  Load load;

  KILN_DEVICE explicit TileCopy(const Load& deferred) : load(deferred) {}

  KILN_DEVICE static Lane lane() { return Lines::lane(); }

  KILN_DEVICE static AffineLoad as_affine(const Load& load) {
    return {{load.pointers.data, load.pointers.offsets.as_affine()}, load.mask};
  }
  KILN_DEVICE static bool is_affine(const Load& load) {
    if constexpr (X::kMayBeAffine)
      return load.pointers.offsets.is_affine();
    else
      return false;
  }

  template <bool kFastPath = true>
  KILN_DEVICE void copy(uint32_t address) const {
    if (is_affine(load)) return Straight(as_affine(load)).template copy<kFastPath>(address);
    copy_lines(address, lane());
  }
  KILN_DEVICE void copy_chunks(uint32_t address, const Lane& first) const {
    if (is_affine(load)) return Straight(as_affine(load)).copy_chunks(address, {});
    copy_lines(address, first);
  }

 private:
  /// Whether all chunks are contiguous.
  static constexpr bool kIsStraight = kContiguous && is_same<conditional_t<kColumnsAreLines, Rows, Columns>, NoAxis>;

  KILN_DEVICE static int row_of(int line, int place) { return kColumnsAreLines ? place : line; }
  KILN_DEVICE static int column_of(int line, int place) { return kColumnsAreLines ? line : place; }
  KILN_DEVICE static int place_of(const DealtChunk& chunk) {
    return static_cast<int>(chunk.number % Shared::kChunksPerLine) * kPerChunk;
  }
  /// Its place in the tile's.
  KILN_DEVICE static uint32_t to(const DealtChunk& chunk) { return Shared::Places::offset(chunk.number); }
  template <typename Places>
  KILN_DEVICE const T* from(const DealtChunk& chunk, int place, const Places& places) const {
    const auto& offsets = load.pointers.offsets;
    return load.pointers.data + (offsets.affine.at(row_of(chunk.line, place), column_of(chunk.line, place)) +
                                 chunk.line_offset + places.at(place));
  }

  KILN_DEVICE void copy_lines(uint32_t address, const Lane& first) const {
    const auto& offsets = load.pointers.offsets;
    if constexpr (kColumnsAreLines)
      copy_dealt(address, first, Lines(offsets.columns), axis_for_all<0, S::kRows>(offsets.rows));
    else
      copy_dealt(address, first, Lines(offsets.rows), axis_for_all<1, S::kColumns>(offsets.columns));
  }
  template <typename Places>
  KILN_DEVICE void copy_dealt(uint32_t address, const Lane& first, const Lines& lines, const Places& places) const {
    const bool is_whole = load.mask.all();
    if constexpr (kIsStraight && Lines::kIsRegular) {
      if (__builtin_expect(is_whole, 1) && copy_regular(address, first, lines)) return;
    }
    // Chunks that go at once; those that are not contiguous, or not at 16 bytes, or lack elements come afterwards.
    constexpr int kBatch = smaller(Lines::kRounds, kHasWgmma ? 4 : 2);
    KILN_NO_UNROLL for (int round = 0; round < Lines::kRounds; round += kBatch) {
      uint32_t left = (1u << kBatch) - 1;
      if (kIsStraight && !Lines::kIsRegular && is_whole) {
        KILN_UNROLL for (int b = 0; b < kBatch; ++b) {
          const DealtChunk chunk = lines.chunk(round + b);  // by all lanes
          const T* const source = from(chunk, place_of(chunk), places);
          if (reinterpret_cast<uint64_t>(source) % 16 != 0) continue;
          if (chunk.is_there) copy_async<16>(address + to(chunk), source);
          left &= ~(1u << b);
        }
      }
      if (__builtin_expect(!__any_sync(0xffffffffu, left != 0), 1)) continue;
      KILN_NO_UNROLL for (int b = 0; b < kBatch; ++b) {
        const DealtChunk chunk = lines.chunk(round + b);
        if (chunk.is_there && (left >> b & 1) != 0) copy_chunk(address, chunk, places, is_whole);
      }
    }
  }
  /// A tile with nothing missing whose chunks are all at 16 bytes; whether it is.
  KILN_DEVICE bool copy_regular(uint32_t address, const Lane& first, const Lines& lines) const {
    constexpr int kBatch = smaller(Lines::kRounds, 4);
    const auto& affine = load.pointers.offsets.affine;
    const uint32_t lane_address = address + Shared::Places::offset(first.number);
    const int place = static_cast<int>(first.number % Shared::kChunksPerLine) * kPerChunk;
    KILN_NO_UNROLL for (int round = 0; round < Lines::kRounds; round += kBatch) {
      const T* sources[kBatch];
      uint64_t bits = 0;
      KILN_UNROLL for (int b = 0; b < kBatch; ++b) {
        const unsigned int number = first.number + static_cast<unsigned int>(round + b) * Lines::kRoundChunks;
        const int line = static_cast<int>(number / Shared::kChunksPerLine);
        sources[b] = load.pointers.data +
                     (affine.at(row_of(line, place), column_of(line, place)) + lines.line_offset(first, round + b));
        bits |= reinterpret_cast<uint64_t>(sources[b]);
      }
      if (!__all_sync(0xffffffffu, bits % 16 == 0)) return false;
      KILN_UNROLL for (int b = 0; b < kBatch; ++b) copy_async<16>(
          Shared::moved(lane_address, static_cast<unsigned int>(round + b) * Lines::kRoundChunks), sources[b]);
    }
    return true;
  }
  /// Any chunk: as one where it is contiguous, at 16 bytes, and lacks no elements before others.
  template <typename Places>
  KILN_DEVICE void copy_chunk(uint32_t address, const DealtChunk& chunk, const Places& places, bool is_whole) const {
    const int place = place_of(chunk);
    const auto is_wanted = [&](int i) {
      return is_whole || load.mask.at(row_of(chunk.line, place + i), column_of(chunk.line, place + i), 0);
    };
    const T* const first = from(chunk, place, places);
    // What lies between two elements that a symbolic mask holds for, it holds for too.
    uint32_t wanted = 0;
    KILN_UNROLL for (int i = 0; i < kPerChunk; ++i) wanted |= is_wanted(i) ? 1u << i : 0u;
    if (kContiguous && reinterpret_cast<uint64_t>(first) % 16 == 0 && (wanted & (wanted + 1)) == 0 &&
        (kIsStraight || from(chunk, place + kPerChunk - 1, places) == first + (kPerChunk - 1)))
      return copy_async<16>(address + to(chunk), first, __popc(wanted) * kSize);
    T values[kPerChunk];
    KILN_UNROLL for (int i = 0; i < kPerChunk; ++i) values[i] =
        load_if(is_wanted(i), from(chunk, place + i, places), T{});
    store_chunk(address + to(chunk), values);
  }
};

}  // namespace kiln::tl
