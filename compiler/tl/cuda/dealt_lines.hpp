#pragma once

#include "compiler/tl/cuda/layout.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/separable.hpp"

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

/// The layout of an axis' numbers as runs dealt to threads: Blocked of all of them, else void.
template <typename L>
struct DealtAxisOf {
  using type = void;
};
template <typename S>
struct DealtAxisOf<Blocked<S>> {
  using type = Blocked<S>;
};
template <int kAxis, typename S>
struct DealtAxisOf<Expanded<kAxis, Blocked<S>>> {
  using type = Blocked<S>;
};

/// Whether the lanes of a warp that copies lines are told those lines' numbers by each other. Long lines without wgmma
/// are not: kernels with such tiles have no registers to spare (mla_decode spilled on sm_120), and all threads meet in
/// each step there anyway.
template <typename Axis, int kChunksPerLine>
inline constexpr bool kIsToldInWarps = false;
template <typename T, typename S, typename L, int kChunksPerLine>
  requires(!is_same<typename DealtAxisOf<L>::type, void>)
inline constexpr bool kIsToldInWarps<Tile<T, S, L>, kChunksPerLine> =
    L::kRegisters <= 4 && (kHasWgmma || kChunksPerLine <= 16);

/// A chunk of a tile that is dealt to a thread.
struct DealtChunk {
  unsigned int number;
  int line;
  bool is_there;  ///< where not, number and line are any that the tile has
  int64_t line_offset;
};

/// How the chunks of lines are dealt to threads, and what the axis adds to offsets in each line. By thread numbers, as
/// TileCopy does, where every thread knows that.
template <bool kColumnsAreLines, int kLines, int kChunksPerLine, typename Axis>
struct DealtLines {
  static constexpr bool kIsRegular = false;
  static constexpr unsigned int kChunks = kLines * kChunksPerLine;
  static constexpr int kRounds = (kLines * kChunksPerLine + kNumThreads - 1) / kNumThreads;

  struct Lane {};
  KILN_DEVICE static Lane lane() { return {}; }

  decltype(axis_for_all<kColumnsAreLines, kLines>(*static_cast<const Axis*>(nullptr))) axis;

  KILN_DEVICE explicit DealtLines(const Axis& given) : axis(axis_for_all<kColumnsAreLines, kLines>(given)) {}
  KILN_DEVICE DealtChunk chunk(int round) const {
    const unsigned int number = static_cast<unsigned int>(round * kNumThreads) + threadIdx.x;
    const bool is_there = number < kChunks;
    const int line = is_there ? static_cast<int>(number / kChunksPerLine) : 0;
    return {is_there ? number : 0, line, is_there, axis.at(line)};
  }
};

/// Where lines are looked up: each warp copies those whose numbers its own lanes hold, which a shuffle brings to those
/// that copy. By way of shared memory every step of a pipeline would have two barriers, at which warpgroups wait for
/// each other instead of multiplying (a bf16 product of 4096^3: 283 us, without the lookup 187).
template <bool kColumnsAreLines, int kLines, int kChunksPerLine, typename Axis>
  requires(kIsToldInWarps<Axis, kChunksPerLine>)
struct DealtLines<kColumnsAreLines, kLines, kChunksPerLine, Axis> {
  using L = typename DealtAxisOf<typename Axis::layout>::type;
  // Lanes hold runs of neighbours. Where there are fewer lines than threads, several warps hold the same 32 and share
  // them; fewer than 32 all warps hold.
  static constexpr int kWarps = smaller(kNumWarps, larger(1, kLines / 32));  ///< that hold different lines
  static constexpr int kSharing = kNumWarps / kWarps;
  static constexpr int kRunLines = smaller(kLines, 32 * L::kVector);  ///< of a warp in neighbouring places
  static constexpr int kRuns = L::kRegisters / L::kVector;
  static constexpr unsigned int kWarpChunks = kRunLines * kRuns * kChunksPerLine;  ///< of the warps that share them
  static constexpr int kRounds = (static_cast<int>(kWarpChunks) + 32 * kSharing - 1) / (32 * kSharing);
  static constexpr unsigned int kRoundChunks = 32 * kSharing;
  /// Whether a thread's chunks are a constant apart, whose bits are none of its first one's. Only wgmma's pipelines
  /// keep what follows from that (Lane).
  static constexpr bool kIsRegular = kHasWgmma && L::kRegisters == 1 && is_power_of_two(kChunksPerLine) &&
                                     kRoundChunks % kChunksPerLine == 0 && kWarpChunks % kRoundChunks == 0;

  const Axis& axis;

  KILN_DEVICE explicit DealtLines(const Axis& given) : axis(given) {}
  /// By all lanes of a warp.
  KILN_DEVICE DealtChunk chunk(int round) const {
    const unsigned int place = place_of(round);
    const bool is_there = kWarpChunks % kRoundChunks == 0 ? round < kRounds : place < kWarpChunks;
    const unsigned int in_warp = is_there ? place / kChunksPerLine : 0, run = kRuns == 1 ? 0 : in_warp / kRunLines;
    const unsigned int at = in_warp - run * kRunLines, line = (run * kWarps + warp() % kWarps) * kRunLines + at;
    const unsigned int from = at / L::kVector, wanted = run * L::kVector + at % L::kVector;
    int64_t offset = 0;
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
      const int64_t held = __shfl_sync(0xffffffffu, static_cast<int64_t>(axis.registers[r]), static_cast<int>(from));
      if (r == static_cast<int>(wanted)) offset = held;
    }
    return {line * kChunksPerLine + (is_there ? place % kChunksPerLine : 0), static_cast<int>(line), is_there, offset};
  }

  /// Of a regular dealing, the thread's first chunk: its number, and the lane that tells its line. Computed once in a
  /// pipeline and kept in registers behind a shuffle, since compilers compute both anew in each step where they see
  /// how.
  struct Lane {
    unsigned int number, from;
  };
  KILN_DEVICE static Lane lane() {
    if constexpr (!kIsRegular) return {};
    const unsigned int at = place_of(0) / kChunksPerLine, line = warp() % kWarps * kRunLines + at;
    const int own = static_cast<int>(threadIdx.x % 32);
    return {__shfl_sync(0xffffffffu, line * kChunksPerLine + place_of(0) % kChunksPerLine, own),
            __shfl_sync(0xffffffffu, at, own)};
  }
  /// What the axis adds to the thread's chunk in this round. By all lanes.
  KILN_DEVICE int64_t line_offset(const Lane& first, int round) const {
    return __shfl_sync(0xffffffffu, static_cast<int64_t>(axis.registers[0]),
                       static_cast<int>(first.from + static_cast<unsigned int>(round) * kRoundChunks / kChunksPerLine));
  }

 private:
  KILN_DEVICE static unsigned int warp() { return threadIdx.x / 32; }
  /// Of the thread's chunk among those of its warp's lines.
  KILN_DEVICE static unsigned int place_of(int round) {
    return (static_cast<unsigned int>(round * kSharing) + warp() / kWarps) * 32 + threadIdx.x % 32;
  }
};

}  // namespace kiln::tl
