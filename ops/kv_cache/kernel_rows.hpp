#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/kv_cache/kernel_rows_pair.hpp"

namespace kiln::ops {

#if defined(KILN_TARGET_CPU)
/// Asks for the first of a row's cache lines; the CPU sees by itself where a longer row goes on. Rows of a pool come in
/// no order that it could see.
KILN_DEVICE void prefetch_row(const tl::uint8_t* row, tl::int64_t row_bytes) {
  constexpr tl::int64_t kLineBytes = 64, kMostBytes = 1024;
  const tl::int64_t end = row_bytes < kMostBytes ? row_bytes : kMostBytes;
  KILN_NO_UNROLL for (tl::int64_t at = 0; at < end; at += kLineBytes) __builtin_prefetch(row + at);
}
#endif

/// Each program copies `share` pairs' rows, one after the other, BLOCK_BYTES at a time.
template <typename Index, typename Count, typename Slot, int BLOCK_BYTES>
KILN_KERNEL void copy_rows_kernel(tl::uint8_t* dst, const tl::uint8_t* src, const Index* indices, const Count* counts,
                                  Slot* slot_map, RowsIteration it, tl::int64_t share) {
  const auto block = tl::arange<BLOCK_BYTES>();
  const tl::int64_t first = tl::program_id(0) * share;
  const tl::int64_t end = first + share < it.pairs ? first + share : it.pairs;
  const auto pair_at = [&](tl::int64_t number) {
    ProgramNumber rest = static_cast<ProgramNumber>(number);
    const tl::int64_t place = take_coordinate(rest, it.topk);
    return listed_pair<tl::int64_t>(indices, counts, static_cast<tl::int64_t>(rest), place, it);
  };
  KILN_NO_UNROLL for (tl::int64_t i = first; i < end; ++i) {
    const auto pair = pair_at(i);
#if defined(KILN_TARGET_CPU)
    constexpr tl::int64_t kAhead = 8;  // twice the speed of none; more are no better
    if (i + kAhead < end)
      if (const auto later = pair_at(i + kAhead); later.src >= 0)
        prefetch_row(src + later.src * it.src_stride, it.row_bytes);
#endif
    if (pair.src < 0) continue;
    const tl::uint8_t* const from = src + pair.src * it.src_stride;
    tl::uint8_t* const to = dst + pair.dst * it.dst_stride;
    tl::int64_t at = 0;
#if defined(KILN_TARGET_CPU)
    // Apart from the masked form, which the compiler does not vectorise as well.
    KILN_NO_UNROLL for (; at + BLOCK_BYTES <= it.row_bytes; at += BLOCK_BYTES)
        tl::store(to + at + block, tl::load(from + at + block, tl::DirectAccess{}), tl::DirectAccess{});
#endif
    KILN_NO_UNROLL for (; at < it.row_bytes; at += BLOCK_BYTES) {
      const auto mask = block < it.row_bytes - at;
      tl::store(to + at + block, tl::load(from + at + block, mask), mask);
    }
    if (slot_map != nullptr) tl::store(slot_map + pair.src * it.slot_stride, pair.dst);
  }
}

/// Looks for pairs that name rows which do not exist. Program p looks at every num_programs-th block of pairs and
/// leaves in found[2p] twice the number of the first it sees, plus one where it is the dst row that does not exist, or
/// kNoBadRow; in found[2p + 1] that row.
template <typename Index, typename Count, int BLOCK_SIZE>
KILN_KERNEL void find_bad_rows_kernel(tl::int64_t* found, const Index* indices, const Count* counts, RowsIteration it) {
  const auto places = tl::arange<BLOCK_SIZE>();
  tl::int64_t first_bad = kNoBadRow;
  const tl::int64_t step = tl::num_programs(0) * BLOCK_SIZE;
  KILN_NO_UNROLL for (tl::int64_t start = tl::program_id(0) * BLOCK_SIZE; start < it.pairs && first_bad == kNoBadRow;
                      start += step) {
    const auto number = tl::to_values(start + places);
    const auto request = number / it.topk, place = number % it.topk;
    const auto entry = request * it.index_strides[0] + place * it.index_strides[1];
    auto wanted = number < it.pairs;
    if (counts != nullptr) {
      const auto count = tl::cast<tl::int64_t>(tl::load(counts + request * it.count_stride, wanted));
      wanted = wanted & (place < count);
    }
    const auto src = tl::cast<tl::int64_t>(tl::load(indices + entry, wanted, -1));
    const auto dst = tl::cast<tl::int64_t>(tl::load(indices + (entry + it.index_strides[2]), wanted, -1));
    const auto is_copied = (src >= 0) & (dst >= 0);
    const auto of_src = tl::where(is_copied & (src >= it.src_rows), number * 2, kNoBadRow);
    const auto of_dst = tl::where(is_copied & (dst >= it.dst_rows), number * 2 + 1, kNoBadRow);
    first_bad = tl::min(tl::minimum(of_src, of_dst));
  }
  tl::store(found + 2 * tl::program_id(0), first_bad);
  if (first_bad == kNoBadRow) return;
  const tl::int64_t number = first_bad / 2;
  const tl::int64_t entry = number / it.topk * it.index_strides[0] + number % it.topk * it.index_strides[1];
  const Index row = tl::load(indices + (entry + first_bad % 2 * it.index_strides[2]));
  tl::store(found + (2 * tl::program_id(0) + 1), static_cast<tl::int64_t>(row));
}

}  // namespace kiln::ops
