#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/kv_cache/iteration_paged.hpp"

// Rows between paged caches and dense tensors, of any strides. T is an unsigned integer of the dtype's size: bits move
// as they are.

namespace kiln::ops {

KILN_DEVICE tl::int64_t smaller_of(tl::int64_t a, tl::int64_t b) {
  return a < b ? a : b;
}

/// Writes the row at `from`, or zeros where it is not there, to `to`.
template <int BLOCK_N, bool DENSE, typename T>
KILN_DEVICE void move_row(T* to, tl::int64_t to_stride, const T* from, tl::int64_t from_stride, tl::int64_t width,
                          bool is_there) {
  KILN_NO_UNROLL for (tl::int64_t start = 0; start < width; start += BLOCK_N) {
    const auto columns = start + tl::arange<BLOCK_N>();
    const auto wanted = columns < width, present = columns < (is_there ? width : 0);
    if constexpr (DENSE)
      tl::store(to + columns, tl::load(from + columns, present), wanted);
    else
      tl::store(to + columns * to_stride, tl::load(from + columns * from_stride, present), wanted);
  }
}

/// out[request, head, token] = cache[block_table[request, token / page], token % page, head], zeros from the request's
/// length on and where the entry names no block. ROWS tokens for each program, all heads of one before the next token:
/// head after head, a program of the CPU read an NHD cache at half the speed.
template <typename T, typename TableT, typename LengthT, int ROWS, int BLOCK_N, bool DENSE>
KILN_KERNEL void paged_gather_kernel(T* out, const T* cache, const TableT* table, const LengthT* lengths,
                                     PagedGatherIteration it) {
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  const tl::int64_t first = take_coordinate(rest, it.parts) * ROWS;
  const auto request = static_cast<tl::int64_t>(rest);
  const tl::int64_t length = smaller_of(tl::load(lengths + request * it.length_stride), it.readable_tokens);
  const tl::int64_t end = smaller_of(first + ROWS, it.tokens);
  const TableT* entry = table + (request * it.table_strides[0] + first / it.cache.page * it.table_strides[1]);
  tl::int64_t place = first % it.cache.page;
  KILN_NO_UNROLL for (tl::int64_t token = first; token < end; ++token) {
    // What lies behind the sequence in the table may be anything.
    const tl::int64_t block = token < length ? static_cast<tl::int64_t>(tl::load(entry)) : -1;
    const bool is_there = block >= 0 && block < it.cache.num_blocks;
    const T* from = cache + ((is_there ? block : 0) * it.cache.block_stride + place * it.cache.place_stride);
    T* to = out + (request * it.out_strides[0] + token * it.out_strides[2]);
    KILN_NO_UNROLL for (tl::int64_t head = 0; head < it.heads; ++head) {
      move_row<BLOCK_N, DENSE>(to, it.out_strides[3], from, it.cache.element_stride, it.width, is_there);
      from += it.cache.head_stride;
      to += it.out_strides[1];
    }
    if (++place == it.cache.page) {
      place = 0;
      entry += it.table_strides[1];
    }
  }
}

/// cache[slots[token] / page, slots[token] % page, head] = new[token, head], for keys and values, where the slot is one
/// of the cache. With TABLE the caches are given as an address for each layer. ROWS rows for each program.
template <typename T, typename SlotT, int ROWS, int BLOCK_N, bool DENSE, bool TABLE>
KILN_KERNEL void paged_append_kernel(const T* key, const T* value,
                                     tl::conditional_t<TABLE, const tl::int64_t, T>* key_cache,
                                     tl::conditional_t<TABLE, const tl::int64_t, T>* value_cache, const SlotT* slots,
                                     PagedAppendIteration it) {
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  const tl::int64_t first = take_coordinate(rest, it.parts) * ROWS;
  const tl::int64_t end = smaller_of(first + ROWS, it.tokens * it.heads);
  const auto layer = static_cast<tl::int64_t>(rest / 2);
  const int kind = static_cast<int>(rest % 2);
  const PagedCache& cache = it.caches[kind];
  const tl::int64_t* const strides = it.strides[kind];
  const T* const rows = (kind == 0 ? key : value) + layer * strides[0];
  T* to;
  if constexpr (TABLE)
    to = reinterpret_cast<T*>(tl::load((kind == 0 ? key_cache : value_cache) + layer * it.table_strides[kind]));
  else
    to = kind == 0 ? key_cache : value_cache;
  tl::int64_t token = first / it.heads, head = first % it.heads;
  KILN_NO_UNROLL for (tl::int64_t row = first; row < end; ++row) {
    const auto slot = static_cast<tl::int64_t>(tl::load(slots + token * it.slot_stride));
    if (slot >= 0 && slot < cache.num_blocks * cache.page)
      move_row<BLOCK_N, DENSE>(to + (slot / cache.page * cache.block_stride + slot % cache.page * cache.place_stride +
                                     head * cache.head_stride),
                               cache.element_stride, rows + (token * strides[1] + head * strides[2]), strides[3],
                               it.width, true);
    if (++head == it.heads) {
      head = 0;
      ++token;
    }
  }
}

/// dst[d] = src[s] for each pair (s, d) of the mapping, where both are blocks. Blocks are dense; PIECE elements of one
/// pair's for each program.
template <typename T, typename IndexT, int PIECE, int BLOCK_N>
KILN_KERNEL void swap_blocks_kernel(T* dst, const T* src, const IndexT* mapping, SwapIteration it) {
  const tl::int64_t first = tl::program_id(0) * PIECE;
  KILN_NO_UNROLL for (tl::int64_t pair = tl::program_id(1); pair < it.pairs; pair += tl::num_programs(1)) {
    const IndexT* const entry = mapping + pair * it.pair_stride;
    const tl::int64_t from = tl::load(entry), to = tl::load(entry + it.side_stride);
    if (from < 0 || from >= it.num_blocks[0] || to < 0 || to >= it.num_blocks[1]) continue;
    move_row<BLOCK_N, true>(dst + (to * it.block_strides[1] + first), 1, src + (from * it.block_strides[0] + first), 1,
                            smaller_of(it.width - first, PIECE), true);
  }
}

/// Each program's first index that is too large, as its row and the index: found[2 * program] and the next. A row with
/// a negative index is skipped. Axis 1 counts columns.
template <typename IndexT, int BLOCK, int COLUMNS>
KILN_KERNEL void check_indices_kernel(tl::int64_t* found, const IndexT* indices, IndexCheckIteration it) {
  const tl::int64_t column = tl::program_id(1);
  const tl::int64_t limit = it.limits[column];
  const IndexT* const entries = indices + column * it.column_stride;
  tl::int64_t row = kNothingFound;
  KILN_NO_UNROLL for (tl::int64_t start = tl::program_id(0) * BLOCK; start < it.rows && row == kNothingFound;
                      start += tl::num_programs(0) * BLOCK) {
    const auto rows = start + tl::arange<BLOCK>();
    const auto column_of = [&](const IndexT* first) {
      return tl::cast<tl::int64_t>(tl::load(first + rows * it.row_stride, rows < it.rows, IndexT(-1)));
    };
    auto is_bad = column_of(entries) >= limit;
    if constexpr (COLUMNS == 2) is_bad = is_bad & (column_of(indices + (1 - column) * it.column_stride) >= 0);
    row = tl::min(tl::where(is_bad, rows, kNothingFound));
  }
  tl::int64_t* const result = found + 2 * (column * tl::num_programs(0) + tl::program_id(0));
  tl::store(result, row);
  tl::store(result + 1, row == kNothingFound ? 0 : static_cast<tl::int64_t>(tl::load(entries + row * it.row_stride)));
}

/// Each program's first mistake, as three numbers: request, column of the table or -1 for a length, and what stands
/// there.
template <typename TableT, typename LengthT, int BLOCK>
KILN_KERNEL void check_table_kernel(tl::int64_t* found, const TableT* table, const LengthT* lengths,
                                    TableCheckIteration it) {
  tl::int64_t request = tl::program_id(0), column = kNothingFound, value = 0;
  KILN_NO_UNROLL for (; request < it.requests && column == kNothingFound; request += tl::num_programs(0)) {
    const tl::int64_t length = tl::load(lengths + request * it.length_stride);
    if (length < 0 || length > it.most_tokens) {
      column = -1;
      value = length;
      break;
    }
    const TableT* const entries = table + request * it.table_strides[0];
    const tl::int64_t used = (length + it.page - 1) / it.page;
    KILN_NO_UNROLL for (tl::int64_t start = 0; start < used && column == kNothingFound; start += BLOCK) {
      const auto columns = start + tl::arange<BLOCK>();
      const auto block = tl::cast<tl::int64_t>(tl::load(entries + columns * it.table_strides[1], columns < used));
      // An entry that is not used reads as 0, which is a block wherever one is used.
      column = tl::min(tl::where((block < 0) | (block >= it.num_blocks), columns, kNothingFound));
    }
    if (column != kNothingFound) {
      value = tl::load(entries + column * it.table_strides[1]);
      break;
    }
  }
  tl::int64_t* const result = found + 3 * tl::program_id(0);
  tl::store(result, column == kNothingFound ? kNothingFound : request);
  tl::store(result + 1, column);
  tl::store(result + 2, value);
}

}  // namespace kiln::ops
