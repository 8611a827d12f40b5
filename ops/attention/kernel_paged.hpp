#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration_paged.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/kernel_operand.hpp"
#include "ops/attention/kernel_pages.hpp"
#include "ops/attention/kernel_scores.hpp"
#include "ops/attention/kernel_softmax.hpp"

namespace kiln::ops {

/// softmax(scores) @ v for BLOCK_M rows of a request over a part of its keys, in pages of PAGE tokens. Out is T, or
/// float where parts are merged later (kernel_merge.hpp): a part that has no keys then leaves its rows as they are.
/// Keys and values of K are multiplied as numbers of T. S is the type of the sinks, which are the first part's.
/// IS_LIST: the table lists all requests' pages, starts says where each request's begin, and lengths are those of last
/// pages. Of kernels that cast keys a multiprocessor is to run one program, which lets ptxas have the registers that it
/// spills otherwise; of others nothing (0) is said, for with 1 they take half as many again without needing them.
template <typename Out, typename T, typename K, typename S, typename TableT, typename LengthT, AttentionForm FORM,
          int PAGE, bool IS_LIST, bool ONE_QUERY, int BLOCK_M, int BLOCK_N, int NUM_STAGES>
KILN_KERNEL_OF(sizeof(K) < sizeof(T) ? 1 : 0)
void attention_paged_kernel(Out* out, float* lse, const T* q, const K* k, const K* v, const TableT* table,
                            const LengthT* lengths, const TableT* starts, const float* slopes, const S* sinks,
                            const float* k_scales, const float* v_scales, long long k_place, long long v_place,
                            PagedAttentionIteration it) {
  constexpr int kDim = FORM.head_dim, kValueDim = FORM.value_dim;
  constexpr bool kHasPlaces = FORM.has_slopes || (!ONE_QUERY && (FORM.has_low || FORM.has_high));
  const int program = static_cast<int>(tl::program_id(0)), split = program % it.splits;
  const tl::int64_t first = tl::int64_t{program / it.splits} * BLOCK_M;
  const tl::int64_t key_head = it.first_head + tl::program_id(1), request = it.first_request + tl::program_id(2);
  const tl::int64_t num_rows = it.queries * it.group, first_head = key_head * it.group;
  const HeadScales scales{nullptr, k_scales, v_scales};
  const ListedPages pages = [&] {
    const LengthT* const own_length = lengths + request * it.length_stride;
    if constexpr (IS_LIST)
      return listed_pages(starts + request * it.start_stride, it.start_stride, it.all_pages, own_length, PAGE);
    else
      return ListedPages{0, length_of(own_length, it.most_tokens)};
  }();
  const int length = pages.length;
  const TableT* const entries = IS_LIST ? table + pages.first * it.table_entry : table + request * it.table_request;
  q += request * it.q.batch + first_head * it.q.head;
  k += key_head * it.k.head_stride;
  v += key_head * it.v.head_stride;
  out += split * it.out_split + request * it.out.batch + first_head * it.out.head;
  const auto row = first + tl::arange<BLOCK_M>();
  const auto rows = tl::expand_dims<1>(row);
  const auto dims = tl::expand_dims<0>(tl::arange<FORM.padded_head_dim()>());
  const auto value_dims = tl::expand_dims<0>(tl::arange<FORM.padded_value_dim()>());
  const auto offsets_of = [&](const auto& numbers, long long query_stride, long long head_stride) {
    return row_offsets<ONE_QUERY>(numbers, it.group, query_stride, head_stride);
  };

  const int left = static_cast<int>(it.left), right = static_cast<int>(it.right);
  const StepsOfPart steps = steps_of_part<FORM, BLOCK_M, BLOCK_N>(
      {first, num_rows, static_cast<int>(it.queries), it.group, length, left, right}, split, it.splits);
  const int begin = steps.begin, end = steps.end, own = steps.own;
  const auto lse_places = split * it.lse_split + request * it.lse_batch + first_head * it.lse_head +
                          offsets_of(row, it.lse_row, it.lse_head);
  if (steps.num_steps == 0 && split > 0) {
    tl::store(lse + lse_places, -INFINITY, row < num_rows);
    return;
  }
  const auto queries = tl::pipeline_operand([&] {
    return tl::deferred_load(q + (offsets_of(rows, it.q.row, it.q.head) + along_head<FORM>(dims, it.q.element)),
                             within_head<kDim>(rows < num_rows, dims));
  });
  auto acc = tl::dot_accumulator<T, BLOCK_M, FORM.padded_value_dim()>();
  const float scale = scale_of_scores<FORM>(scales, it, request, key_head);
  const float factor = FORM.scales_first ? kLog2E : scale * kLog2E;
  const auto no_rows = tl::max<1>(acc);  // zeros in the layout of a product's rows
  auto largest = no_rows + kLowestScore;
  auto total = no_rows;
  // What differs from row to row: its slope, its sink, and its own place, counted from `begin`.
  const auto of_heads = [&](const auto* numbers, tl::int64_t stride, tl::int64_t count) {
    const auto head = first_head + (row - row / tl::int64_t{it.group} * tl::int64_t{it.group});
    return tl::cast<float>(tl::load(numbers + head * stride, row < count, -INFINITY));
  };
  if constexpr (FORM.has_sinks) {
    const auto sink = of_heads(sinks, it.sink_head, split == 0 ? num_rows : 0);
    const auto score = FORM.scales_first ? sink : sink * kLog2E;
    largest = no_rows + tl::where(score > kLowestScore, score, kLowestScore);
    // NaN where the sink is none, or infinite.
    total = no_rows + tl::where(sink == -INFINITY, 0.f, sink - sink + 1.f);
  }
  auto slope = no_rows;
  if constexpr (FORM.has_slopes) slope = no_rows + of_heads(slopes + request * it.slope_batch, it.slope_head, num_rows);
  auto own_place = no_rows;
  if constexpr (kHasPlaces) own_place = no_rows + tl::cast<float>(row / tl::int64_t{it.group} + (own - begin));
  auto columns = tl::cast<float>(tl::dot_accumulator<T, BLOCK_M, kHasPlaces ? BLOCK_N : 16>());
  if constexpr (kHasPlaces) columns = columns + tl::expand_dims<0>(tl::arange<BLOCK_N>());

  int step = 0;
  tl::pipeline<NUM_STAGES>(
      steps.num_steps,
      [&](tl::int64_t at) {
        const tl::int64_t from = begin + at * BLOCK_N;
        const auto k_places = token_places<PAGE, BLOCK_N, 0>(entries, it.table_entry, it.k, k_place, from, end);
        const auto v_places = token_places<PAGE, BLOCK_N, 1>(entries, it.table_entry, it.v, v_place, from, end);
        const auto tokens = from + tl::expand_dims<1>(tl::arange<BLOCK_N>());
        return tl::Tuple{tl::deferred_load(k + (k_places + tl::trans(along_head<FORM>(dims, it.k.element_stride))),
                                           tl::trans(within_head<kDim>(tokens < end, dims))),
                         tl::deferred_load(v + (v_places + along_head<FORM>(value_dims, it.v.element_stride)),
                                           within_head<kValueDim>(tokens < end, value_dims))};
      },
      [&](const auto& k_tile, const auto& v_tile) {
        auto x = scaled_scores<FORM>(tl::cast<float>(tl::dot(queries, as_operand<T>(k_tile))), scale, it.softcap);
        const auto keys = begin + step * BLOCK_N + tl::expand_dims<0>(tl::arange<BLOCK_N>());
        if constexpr (FORM.has_slopes)
          x = x - tl::abs(columns + static_cast<float>(step * BLOCK_N) - tl::expand_dims<1>(own_place)) *
                      tl::expand_dims<1>(slope);
        if (step >= steps.whole_to || (FORM.has_low && step < steps.whole_from)) {
          x = tl::where(keys < end, x, -INFINITY);
          if constexpr (ONE_QUERY && FORM.has_low) {
            x = tl::where(keys >= own - left, x, -INFINITY);
          } else if constexpr (kHasPlaces && !ONE_QUERY) {
            const auto behind = columns + static_cast<float>(step * BLOCK_N) - tl::expand_dims<1>(own_place);
            if constexpr (FORM.has_high) x = tl::where(behind <= static_cast<float>(right), x, -INFINITY);
            if constexpr (FORM.has_low) x = tl::where(behind >= static_cast<float>(-left), x, -INFINITY);
          }
        }
        add_keys<T, FORM.scales_first>(x, factor, v_tile, largest, total, acc);
        ++step;
      });

  tl::store(out + (offsets_of(rows, it.out.row, it.out.head) + along_head<FORM>(value_dims, it.out.element)),
            tl::cast<Out>(
                acc * tl::expand_dims<1>(with_value_scale<FORM>(weight_of_sums(total), scales, it, request, key_head))),
            within_head<kValueDim>(rows < num_rows, value_dims));
  if constexpr (FORM.returns_lse)
    tl::store(lse + lse_places, log_of_sums<FORM.scales_first>(largest, total), row < num_rows);
}

}  // namespace kiln::ops
