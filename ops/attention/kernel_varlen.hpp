#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration_varlen.hpp"
#include "ops/attention/kernel_block.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::ops {

/// Rows that are filled at a time: so few that shared memory has room for them beside other tiles.
inline constexpr int kFilledRows = 16;

/// Zeros and -inf for rows of one head, kFilledRows at a time and `rows_apart` from one time to the next.
template <typename T, AttentionForm FORM>
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
/// rows that are no sequence's. S is the type of the sinks.
template <typename T, typename S, typename StartT, AttentionForm FORM, int BLOCK_M, int BLOCK_N, int NUM_STAGES,
          int PROGRAMS>
KILN_KERNEL_OF(PROGRAMS)
void attention_varlen_kernel(T* out, float* lse, const T* q, const T* k, const T* v, const StartT* q_starts,
                             const StartT* k_starts, const float* slopes, const S* sinks, long long k_row,
                             long long v_row, VarlenIteration it) {
  const tl::int64_t blocks = tl::num_programs(0), block = blocks - 1 - tl::program_id(0);
  const tl::int64_t head = it.each.first_head + tl::program_id(1);
  const tl::int64_t sequence = it.each.first_request + tl::program_id(2);
  // Of 32 bits, since a GPU has few registers for what is needed all along.
  const auto start_of = [](const StartT* starts, tl::int64_t number, long long stride, tl::int64_t most) {
    const tl::int64_t start = tl::load(starts + number * stride);
    return static_cast<int>(start < 0 ? tl::int64_t{0} : start > most ? most : start);
  };
  T* const head_out = out + head * it.each.out.head;
  float* const head_lse = lse + head * it.each.lse_head;
  if (sequence == it.sequences) {
    const tl::int64_t step = blocks * kFilledRows, first = block * kFilledRows;
    const tl::int64_t before = start_of(q_starts, 0, it.q_start, it.all_queries);
    const tl::int64_t behind = start_of(q_starts, it.sequences, it.q_start, it.all_queries);
    fill_rows<T, FORM>(head_out, head_lse, it.each, first, before, step);
    fill_rows<T, FORM>(head_out, head_lse, it.each, behind + first, it.all_queries, step);
    return;
  }
  const int q_begin = start_of(q_starts, sequence, it.q_start, it.all_queries);
  const int q_end = start_of(q_starts, sequence + 1, it.q_start, it.all_queries);
  const int k_begin = start_of(k_starts, sequence, it.k_start, it.all_keys);
  const int k_end = start_of(k_starts, sequence + 1, it.k_start, it.all_keys);
  // Queries are counted as rows of q: pointers to these then follow from parameters, which takes no registers.
  AttentionIteration own = it.each;
  own.queries = q_end;
  own.keys = k_end > k_begin ? k_end - k_begin : 0;
  own.diagonal = it.is_top_left ? -q_begin : own.keys - q_end;
  own.low = own.diagonal - it.left;
  own.high = own.diagonal + it.right;
  if (q_end - q_begin > it.max_queries) {
    own.queries = q_begin + it.max_queries;
    if (block == 0) fill_rows<T, FORM>(head_out, head_lse, it.each, own.queries, q_end, kFilledRows);
  }
  const tl::int64_t first = q_begin + block * BLOCK_M;
  if (first >= own.queries) return;
  attend_block<T, FORM, BLOCK_M, BLOCK_N, NUM_STAGES>(out, lse, q, k + k_begin * k_row, v + k_begin * v_row,
                                                      static_cast<const bool*>(nullptr), slopes, sinks, k_row, v_row,
                                                      own, first, head, sequence);
}

}  // namespace kiln::ops
