#pragma once

#include "compiler/tl/math.hpp"

namespace kiln::tl {

inline constexpr unsigned int kAllLanes = 0xffffffffu;

/// Combines lanes whose numbers differ only in the bits from kFrom up to below kTo; all of them get the result.
template <typename Op, int kFrom, int kTo, Number T>
KILN_DEVICE T reduce_lanes(T value) {
  KILN_UNROLL for (int offset = kFrom; offset < kTo; offset *= 2) value =
      Op::combine(value, static_cast<T>(__shfl_xor_sync(kAllLanes, value, offset)));
  return value;
}

/// Combines, lane by lane, the values of warps first_warp, first_warp + kStride, ..., kCount of them, in that order.
template <typename Op, int kCount, int kStride, Number T>
KILN_DEVICE T reduce_warps(T value, int first_warp, T* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // the scratch may still be read from an earlier use
  scratch[threadIdx.x] = value;
  __syncthreads();
  T result = scratch[first_warp * 32 + lane];
  KILN_UNROLL for (int i = 1; i < kCount; ++i) result =
      Op::combine(result, scratch[(first_warp + i * kStride) * 32 + lane]);
  return result;
}

template <typename Op, Number T, typename S, typename L>
KILN_DEVICE T reduce_all(const Tile<T, S, L>& x) {
  T value = Op::template neutral<T>();
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) if (L::owns(r)) value = Op::combine(value, x.registers[r]);
  value = reduce_lanes<Op, 1, 32>(value);
  if constexpr (kNumWarps > 1) {
    __shared__ T scratch[kNumThreads];
    value = reduce_warps<Op, kNumWarps, 1>(value, 0, scratch);
  }
  return value;
}

/// Elements are dealt row-major, so kThreadsPerRow neighbouring threads hold a row's run of the tile; where a row needs
/// more threads than there are, it takes kRunsPerRow runs of every thread.
template <typename Op, int kAxis, Number T, int kM, int kN>
KILN_DEVICE auto reduce_axis(const Tile<T, Shape<kM, kN>>& x) {
  static_assert(kAxis == 0 || kAxis == 1, "the axis of a two-dimensional tile is 0 or 1");
  using L = Blocked<Shape<kM, kN>>;
  constexpr int kV = L::kVector;
  constexpr int kThreadsPerRow = smaller(kN / kV, kNumThreads);
  constexpr int kRunsPerRow = larger(1, kN / (kV * kNumThreads));
  [[maybe_unused]] const int warp = static_cast<int>(threadIdx.x) / 32;
  Tile<T, Shape<kAxis == 1 ? kM : kN>, Slice<kAxis, Shape<kM, kN>>> result;
  if constexpr (kAxis == 1) {
    KILN_UNROLL for (int run = 0; run < L::kRuns; run += kRunsPerRow) {
      T value = x.registers[run * kV];
      KILN_UNROLL for (int i = 1; i < kRunsPerRow * kV; ++i) value = Op::combine(value, x.registers[run * kV + i]);
      value = reduce_lanes<Op, 1, smaller(kThreadsPerRow, 32)>(value);
      if constexpr (kThreadsPerRow > 32) {
        __shared__ T scratch[kNumThreads];
        constexpr int kWarpsPerRow = kThreadsPerRow / 32;
        value = reduce_warps<Op, kWarpsPerRow, 1>(value, warp / kWarpsPerRow * kWarpsPerRow, scratch);
      }
      KILN_UNROLL for (int i = 0; i < kRunsPerRow * kV; ++i) result.registers[run * kV + i] = value;
    }
  } else {
    // A thread's registers kRunsPerRow runs apart share a column.
    constexpr int kColumnsHeld = kRunsPerRow * kV;
    KILN_UNROLL for (int column = 0; column < kColumnsHeld; ++column) {
      T value = x.registers[column];
      KILN_UNROLL for (int r = column + kColumnsHeld; r < L::kRegisters; r += kColumnsHeld) value =
          Op::combine(value, x.registers[r]);
      // In a tile smaller than the program, threads past its elements repeat them: combine each element once.
      constexpr int kDistinctThreads = L::kReplicated ? kM * kN : kNumThreads;
      value = reduce_lanes<Op, kThreadsPerRow, smaller(kDistinctThreads, 32)>(value);
      if constexpr (kDistinctThreads > 32) {
        __shared__ T scratch[kNumThreads];
        constexpr int kStride = larger(1, kThreadsPerRow / 32);
        value = reduce_warps<Op, kDistinctThreads / 32 / kStride, kStride>(value, warp % kStride, scratch);
      }
      KILN_UNROLL for (int r = column; r < L::kRegisters; r += kColumnsHeld) result.registers[r] = value;
    }
  }
  return result;
}

}  // namespace kiln::tl
