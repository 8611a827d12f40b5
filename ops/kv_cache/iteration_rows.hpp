#pragma once

// Included by kernels and by the host that fills this struct in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// Rows from src to dst: pair number `place` of request `request` is (src row, dst row), at request * index_strides[0]
/// + place * index_strides[1], and index_strides[2] further. Strides and widths of rows are in bytes, others in
/// elements.
struct RowsIteration {
  long long pairs;  ///< of all requests
  long long topk;   ///< of one
  long long src_rows, dst_rows;
  long long row_bytes, src_stride, dst_stride;
  long long index_strides[3];
  long long count_stride, slot_stride;
};

/// How the pairs of a call are sorted: by the row on the side where being near pays, into buckets of 2^shift rows.
struct RowsOrder {
  int shift;
  int by_dst;  ///< 1 or 0; a bool would leave bytes of the struct open, by which launches are compared
};

inline constexpr int kRowBuckets = 4096;
/// Behind the buckets' counters: how many pairs there are, and how many batches of them were handed out.
inline constexpr int kRowTotal = kRowBuckets, kRowTickets = kRowBuckets + 1, kRowCounters = kRowBuckets + 2;

/// What find_bad_rows_kernel leaves where it finds nothing.
inline constexpr long long kNoBadRow = 0x7fffffffffffffff;

/// The side whose rows a warp's lanes are aligned to.
enum class RowAlignment : int { none, src, dst };

}  // namespace kiln::ops
