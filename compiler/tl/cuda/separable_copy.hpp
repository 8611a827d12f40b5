#pragma once

#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/separable_access.hpp"
#include "compiler/tl/cuda/tile_copy.hpp"

namespace kiln::tl {

/// A tile of an axis' numbers in shared memory, where every thread finds those of its lines.
template <int kExtent>
struct SharedAxis {
  const int64_t* numbers;
  KILN_DEVICE int64_t at(int i) const { return numbers[i]; }
};
/// kAxis: which of a tile's two axes, since both are looked at together. By all threads.
template <int kAxis, int kExtent, typename Axis>
KILN_DEVICE auto axis_for_all(const Axis& axis) {
  if constexpr (!is_tile<Axis>) {
    return axis;
  } else {
    using L = typename Axis::layout;
    __shared__ int64_t numbers[kExtent];
    sync_threads();  // the last tile's may still be read
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) if (L::owns(r)) numbers[kAxis == 0 ? L::row(r) : L::column(r)] =
        axis.registers[r];
    sync_threads();
    return SharedAxis<kExtent>{numbers};
  }
}

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
  static constexpr int kSize = Straight::kSize, kPerChunk = Straight::kPerChunk, kRounds = Straight::kRounds;
  static constexpr bool kColumnsAreLines = Straight::kColumnsAreLines, kContiguous = Straight::kContiguous;
  static constexpr bool kHasFastPath = false, kHasFewElements = false;
  static constexpr bool kThreadsMeet = is_tile<Rows> || is_tile<Columns>;
  static_assert(kLines == TileLines::as_in_memory || X::kMayBeAffine,
                "deferred_load: a tile whose rows or columns are looked up lies in shared memory as in memory");

  Load load;

  KILN_DEVICE explicit TileCopy(const Load& deferred) : load(deferred) {}

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
    copy_lines(address);
  }
  KILN_DEVICE void copy_chunks(uint32_t address) const {
    if (is_affine(load)) return Straight(as_affine(load)).copy_chunks(address);
    copy_lines(address);
  }

 private:
  KILN_DEVICE void copy_lines(uint32_t address) const {
    const auto& offsets = load.pointers.offsets;
    const auto rows = axis_for_all<0, S::kRows>(offsets.rows);
    const auto columns = axis_for_all<1, S::kColumns>(offsets.columns);
    if (!Straight::any()) return;
    const bool is_whole = load.mask.all();
    const auto row_of = [](int line, int place) { return kColumnsAreLines ? place : line; };
    const auto column_of = [](int line, int place) { return kColumnsAreLines ? line : place; };
    const auto offset_of = [&](int line, int place) {
      const int row = row_of(line, place), column = column_of(line, place);
      return offsets.affine.at(row, column) + rows.at(row) + columns.at(column);
    };
    const auto is_wanted = [&](int line, int place) {
      return is_whole || load.mask.at(row_of(line, place), column_of(line, place), 0);
    };
    // Chunks that are on their way at the same time. Those that are not contiguous, or not at 16 bytes, or lack
    // elements before others, come afterwards.
    constexpr int kBatch = smaller(kRounds, 8);
    KILN_NO_UNROLL for (int round = 0; round < kRounds; round += kBatch) {
      const auto chunk_of = [&](int b) { return static_cast<unsigned int>((round + b) * kNumThreads) + threadIdx.x; };
      uint32_t left = 0;
      KILN_UNROLL for (int b = 0; b < kBatch; ++b) {
        const unsigned int chunk = chunk_of(b);
        if (kRounds > 1 && !Straight::has(chunk)) continue;
        const int line = static_cast<int>(chunk / Shared::kChunksPerLine);
        const int place = static_cast<int>(chunk % Shared::kChunksPerLine) * kPerChunk;
        const int64_t first = offset_of(line, place);
        bool is_chunk = kContiguous && offset_of(line, place + kPerChunk - 1) == first + kPerChunk - 1 &&
                        reinterpret_cast<uint64_t>(load.pointers.data + first) % 16 == 0;
        int present = kPerChunk;
        if (!is_whole) {
          // What lies between two elements that a symbolic mask holds for, it holds for too.
          uint32_t wanted = 0;
          KILN_UNROLL for (int i = 0; i < kPerChunk; ++i) wanted |= is_wanted(line, place + i) ? 1u << i : 0u;
          present = __popc(wanted);
          is_chunk &= (wanted & (wanted + 1)) == 0;
        }
        if (is_chunk)
          copy_async<16>(address + Shared::Places::offset(chunk), load.pointers.data + first, present * kSize);
        else
          left |= 1u << b;
      }
      while (left != 0) {
        const unsigned int chunk = chunk_of(__ffs(static_cast<int>(left)) - 1);
        left &= left - 1;
        const int line = static_cast<int>(chunk / Shared::kChunksPerLine);
        const int place = static_cast<int>(chunk % Shared::kChunksPerLine) * kPerChunk;
        T values[kPerChunk];
        KILN_UNROLL for (int i = 0; i < kPerChunk; ++i) values[i] =
            load_if(is_wanted(line, place + i), load.pointers.data + offset_of(line, place + i), T{});
        store_chunk(address + Shared::Places::offset(chunk), values);
      }
    }
  }
};

}  // namespace kiln::tl
