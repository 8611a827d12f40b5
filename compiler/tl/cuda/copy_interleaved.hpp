#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/program.hpp"

namespace kiln::tl {

/// out[c * rows + r] = x[r, c] for `columns` columns of x, whose rows are dense and x_stride elements apart: its rows
/// interleaved. `block_columns`, a power of two, is the most that `columns` may be, and as many columns fit in
/// kTileBytes. Any alignment is as fast. For few rows: what tiles of copy_transposed bring in beside what they write is
/// then most of it, where here the output of neighbouring columns is one run of memory.
template <int kTileBytes, Number T>
KILN_DEVICE void copy_interleaved(T* out, const T* x, int64_t x_stride, int rows, int block_columns, int columns) {
  constexpr int kSize = sizeof(T), kPerPacket = 16 / kSize, kLanes = 32;
  constexpr int kAtOnce = smaller(16, 32 / kSize);  // elements of a thread on their way
  // Packets of shared memory are packets of the output.
  T* const shared = reinterpret_cast<T*>(shared_bytes<kTileBytes + 16>());
  const int before = static_cast<int>(reinterpret_cast<uint64_t>(out) & 15) / kSize;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int log2_chunks = larger(0, 26 - __clz(block_columns));  // of a row's lanes
  const int items = rows << log2_chunks;
  sync_threads();  // an earlier tile may still be read
  KILN_NO_UNROLL for (int first = static_cast<int>(threadIdx.x) / kLanes; first < items; first += kNumWarps * kAtOnce) {
    T loaded[kAtOnce];
    const auto each = [&](const auto& body) {
      KILN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
        const int item = first + i * kNumWarps, row = item >> log2_chunks;
        const int column = (item - (row << log2_chunks)) * kLanes + lane;
        body(i, row, column, item < items && column < columns);
      }
    };
    each([&](int i, int row, int column, bool wanted) {
      loaded[i] = load_if(wanted, x + (row * x_stride + column), T{});
    });
    each([&](int i, int row, int column, bool wanted) {
      if (wanted) shared[before + column * rows + row] = loaded[i];
    });
  }
  sync_threads();
  const int end = before + rows * columns;
  T* const first_packet = out - before;
  KILN_NO_UNROLL for (int begin = static_cast<int>(threadIdx.x) * kPerPacket; begin < end;
                      begin += kNumThreads * kPerPacket) {
    if (begin >= before && begin + kPerPacket <= end) {
      *reinterpret_cast<uint4*>(first_packet + begin) = *reinterpret_cast<const uint4*>(shared + begin);
    } else {
      KILN_NO_UNROLL for (int i = begin; i < begin + kPerPacket; ++i) if (i >= before && i < end) first_packet[i] =
          shared[i];
    }
  }
}

}  // namespace kiln::tl
