#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration_varlen.hpp"
#include "ops/attention/kernel_block.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/kernel_operand.hpp"
#include "ops/attention/kernel_order.hpp"
#include "ops/attention/kernel_places.hpp"

namespace kiln::ops {

/// Rows that are filled at a time: so few that shared memory has room for them beside other tiles.
inline constexpr int kFilledRows = 16;

/// Zeros and -inf for rows of one head, kFilledRows at a time and `rows_apart` from one time to the next.
template <AttentionForm FORM, typename T>
KILN_DEVICE void fill_rows(T* out, float* lse, const AttentionIteration& it, tl::int64_t from, tl::int64_t to,
                           tl::int64_t rows_apart) {
  const auto dims = tl::expand_dims<0>(tl::arange<FORM.padded_value_dim()>());
  KILN_NO_UNROLL for (; from < to; from += rows_apart) {
    const auto rows = from + tl::expand_dims<1>(tl::arange<kFilledRows>());
    tl::store(out + (rows * it.out.row + along_head<FORM>(dims, it.out.element)), 0.f,
              within_head<FORM.value_dim>(rows < to, dims));
    if constexpr (FORM.returns_lse) {
      const auto places = from + tl::arange<kFilledRows>();
      tl::store(lse + places * it.lse_row, -INFINITY, places < to);
    }
  }
}

/// A block of queries of one head of one sequence for each program; those of the number behind the last sequence fill
/// rows that are no sequence's. S is the type of the sinks. PAGE: tokens of a page, 0 where sequences' keys lie one
/// after the other; k_starts, used and table may then be null: where they begin, how many a sequence has, the pages.
template <typename Out, typename Q, typename K, typename P, typename S, typename IndexT, AttentionForm FORM, int PAGE,
          int BLOCK_M, int BLOCK_N, int NUM_STAGES, int PROGRAMS>
KILN_KERNEL_OF(PROGRAMS)
void attention_varlen_kernel(Out* out, float* lse, const Q* q, const K* k, const K* v, const IndexT* q_starts,
                             const IndexT* k_starts, const IndexT* used, const IndexT* table, const float* slopes,
                             const S* sinks, const float* q_scales, const float* k_scales, const float* v_scales,
                             long long k_row, long long v_row, VarlenIteration it) {
  const BlockOfHead place = block_of_program<FORM>(it.each);
  const tl::int64_t block = place.block, blocks = place.blocks, head = place.head;
  const tl::int64_t sequence = it.each.first_request + tl::program_id(2);
  // Of 32 bits, since a GPU has few registers for what is needed all along.
  const auto number_of = [](const IndexT* numbers, tl::int64_t place, long long stride, tl::int64_t most) {
    const tl::int64_t number = tl::load(numbers + place * stride);
    return static_cast<int>(number < 0 ? tl::int64_t{0} : number > most ? most : number);
  };
  Out* const head_out = out + head * it.each.out.head;
  float* const head_lse = lse + head * it.each.lse_head;
  if (sequence == it.sequences) {
    const tl::int64_t step = blocks * kFilledRows, first = block * kFilledRows;
    const tl::int64_t before = number_of(q_starts, 0, it.q_start, it.all_queries);
    const tl::int64_t behind = number_of(q_starts, it.sequences, it.q_start, it.all_queries);
    fill_rows<FORM>(head_out, head_lse, it.each, first, before, step);
    fill_rows<FORM>(head_out, head_lse, it.each, behind + first, it.all_queries, step);
    return;
  }
  const int q_begin = number_of(q_starts, sequence, it.q_start, it.all_queries);
  const int q_end = number_of(q_starts, sequence + 1, it.q_start, it.all_queries);
  int k_begin = 0, keys = static_cast<int>(it.most_keys);
  if (PAGE == 0 || k_starts != nullptr) {
    k_begin = number_of(k_starts, sequence, it.k_start, it.all_keys);
    const int k_end = number_of(k_starts, sequence + 1, it.k_start, it.all_keys), there = k_end - k_begin;
    if (PAGE == 0 || there < keys) keys = there > 0 ? there : 0;
  }
  if (used != nullptr) keys = number_of(used, sequence, it.used, keys);
  // Queries are counted as rows of q: pointers to these then follow from parameters, which takes no registers.
  AttentionIteration own = it.each;
  own.queries = q_end;
  own.keys = keys;
  own.diagonal = it.is_top_left ? -q_begin : own.keys - q_end;
  own.low = own.diagonal - it.left;
  own.high = own.diagonal + it.right;
  if (q_end - q_begin > it.max_queries) {
    own.queries = q_begin + it.max_queries;
    if (block == 0) fill_rows<FORM>(head_out, head_lse, it.each, own.queries, q_end, kFilledRows);
  }
  const tl::int64_t first = q_begin + block * BLOCK_M;
  if (first >= own.queries) return;
  const auto attend = [&](const K* own_k, const K* own_v, const auto& places) {
    attend_block<P, FORM, BLOCK_M, BLOCK_N, NUM_STAGES>(out, lse, q, own_k, own_v, static_cast<const bool*>(nullptr),
                                                        slopes, sinks, HeadScales{q_scales, k_scales, v_scales}, places,
                                                        own, first, head, sequence);
  };
  if constexpr (PAGE == 0)
    attend(k + k_begin * k_row, v + k_begin * v_row, RowsInOrder{k_row, v_row});
  else
    attend(k, v,
           RowsInPages<PAGE, IndexT>{table + sequence * it.table_sequence, it.table_entry, it.k_cache, it.v_cache,
                                     k_row, v_row});
}

}  // namespace kiln::ops
