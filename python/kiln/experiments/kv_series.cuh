#pragma once

#include <kiln/tl.hpp>

// Gathers of rows from host memory, in the steps by which engines arrived at fast ones: each is written the way its
// step was, so that the staircase can be measured again beside Kiln's own op. Kernels take `count` pairs of which each
// copies one row: row indices[2 i] of src to row indices[2 i + 1] of dst, a negative index skips the pair. Strides are
// in bytes.

namespace kiln::benchmark {

/// What the kernels' numbers are together.
struct RowCopies {
  tl::int64_t count, row_bytes, dst_stride, src_stride;
};

/// What a thread moves at a time.
template <int BYTES>
struct Word;
template <>
struct Word<1> {
  using Type = unsigned char;
};
template <>
struct Word<16> {
  using Type = uint4;
};

/// Moves one row as T's, `step` of them apart, from `first` on.
template <typename T>
KILN_DEVICE void copy_row(unsigned char* dst, const unsigned char* src, const int* pair, const RowCopies& rows,
                          int first, int step) {
  const int from = pair[0], to = pair[1];
  if (from < 0 || to < 0) return;
  const T* source = reinterpret_cast<const T*>(src + from * rows.src_stride);
  T* target = reinterpret_cast<T*>(dst + to * rows.dst_stride);
  const int size = static_cast<int>(rows.row_bytes / static_cast<tl::int64_t>(sizeof(T)));
  KILN_NO_UNROLL for (int i = first; i < size; i += step) target[i] = source[i];
}

/// A thread to a row, which it copies one after the other: byte by byte, then 16 bytes at a time.
template <int BYTES>
KILN_KERNEL void thread_per_row(unsigned char* dst, const unsigned char* src, const int* indices, tl::int64_t count,
                                tl::int64_t row_bytes, tl::int64_t dst_stride, tl::int64_t src_stride) {
  const RowCopies rows{count, row_bytes, dst_stride, src_stride};
  const tl::int64_t threads = tl::num_programs(0) * tl::kNumThreads;
  for (tl::int64_t pair = tl::program_id(0) * tl::kNumThreads + threadIdx.x; pair < rows.count; pair += threads)
    copy_row<typename Word<BYTES>::Type>(dst, src, indices + 2 * pair, rows, 0, 1);
}

/// A warp to a row: neighbouring lanes move neighbouring bytes, or 16 of them.
template <int BYTES>
KILN_KERNEL void warp_per_row(unsigned char* dst, const unsigned char* src, const int* indices, tl::int64_t count,
                              tl::int64_t row_bytes, tl::int64_t dst_stride, tl::int64_t src_stride) {
  const RowCopies rows{count, row_bytes, dst_stride, src_stride};
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const tl::int64_t warps = tl::num_programs(0) * tl::kNumWarps;
  for (tl::int64_t pair = tl::program_id(0) * tl::kNumWarps + threadIdx.x / 32; pair < rows.count; pair += warps)
    copy_row<typename Word<BYTES>::Type>(dst, src, indices + 2 * pair, rows, lane, 32);
}

/// A warp to ROWS rows at a time, of which the first KiB each is on its way before the first store.
template <int ROWS>
KILN_KERNEL void rows_in_flight(unsigned char* dst, const unsigned char* src, const int* indices, tl::int64_t count,
                                tl::int64_t row_bytes, tl::int64_t dst_stride, tl::int64_t src_stride) {
  const RowCopies rows{count, row_bytes, dst_stride, src_stride};
  constexpr int kPieces = 2;  // a lane's share of a KiB
  const int lane = static_cast<int>(threadIdx.x) % 32, size = static_cast<int>(rows.row_bytes / 16);
  const tl::int64_t warps = tl::num_programs(0) * tl::kNumWarps;
  const tl::int64_t warp = tl::program_id(0) * tl::kNumWarps + threadIdx.x / 32;
  for (tl::int64_t pair = warp; pair < rows.count; pair += ROWS * warps) {
    int from[ROWS], to[ROWS];
    KILN_UNROLL for (int row = 0; row < ROWS; ++row) {
      const tl::int64_t mine = pair + row * warps;
      from[row] = mine < rows.count ? indices[2 * mine] : -1;
      to[row] = mine < rows.count ? indices[2 * mine + 1] : -1;
    }
    KILN_NO_UNROLL for (int start = lane; start < size; start += 32 * kPieces) {
      uint4 held[ROWS][kPieces];
      KILN_UNROLL for (int row = 0; row < ROWS; ++row) KILN_UNROLL for (int piece = 0; piece < kPieces; ++piece) {
        const int i = start + 32 * piece;
        if (i < size && from[row] >= 0 && to[row] >= 0)
          held[row][piece] = reinterpret_cast<const uint4*>(src + from[row] * rows.src_stride)[i];
      }
      KILN_UNROLL for (int row = 0; row < ROWS; ++row) KILN_UNROLL for (int piece = 0; piece < kPieces; ++piece) {
        const int i = start + 32 * piece;
        if (i < size && from[row] >= 0 && to[row] >= 0)
          reinterpret_cast<uint4*>(dst + to[row] * rows.dst_stride)[i] = held[row][piece];
      }
    }
  }
}

/// The limit: as many bytes as the call's rows hold, from the start of src to the start of dst, PIECES loads of 16
/// bytes in flight in a thread. Both sides are as dense as their strides equal the row.
template <int PIECES>
KILN_KERNEL void contiguous_read(unsigned char* dst, const unsigned char* src, const int* indices, tl::int64_t count,
                                 tl::int64_t row_bytes, tl::int64_t dst_stride, tl::int64_t src_stride) {
  static_cast<void>(indices);
  const RowCopies rows{count, row_bytes, dst_stride, src_stride};
  const tl::int64_t size = rows.count * rows.row_bytes / 16, step = tl::num_programs(0) * tl::kNumThreads;
  const uint4* source = reinterpret_cast<const uint4*>(src);
  uint4* target = reinterpret_cast<uint4*>(dst);
  tl::int64_t start = tl::program_id(0) * tl::kNumThreads + threadIdx.x;
  for (; start < size; start += PIECES * step) {
    uint4 held[PIECES];
    KILN_UNROLL for (int piece = 0; piece < PIECES; ++piece) {
      if (start + piece * step < size) held[piece] = source[start + piece * step];
    }
    KILN_UNROLL for (int piece = 0; piece < PIECES; ++piece) {
      if (start + piece * step < size) target[start + piece * step] = held[piece];
    }
  }
}

}  // namespace kiln::benchmark
