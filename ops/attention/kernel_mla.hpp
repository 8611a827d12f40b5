#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration_mla.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/kernel_pages.hpp"
#include "ops/attention/kernel_scores.hpp"
#include "ops/attention/kernel_softmax.hpp"

namespace kiln::ops {

/// A number that a type tells.
template <bool kValue>
struct Flag {
  static constexpr bool value = kValue;
};

/// softmax(scores) @ latents for BLOCK_M rows of a request over a part of its keys, in pages of PAGE tokens: a token is
/// a latent vector, which is key and value in one, and behind it a rotary part, which is key alone. The form's
/// value_dim is the size of the one, head_dim that of the other. Out is T, or float where parts are merged later
/// (kernel_merge.hpp): a part that has no keys then leaves its rows as they are. LINES: rows of out are all equally
/// far apart.
template <typename Out, typename T, typename TableT, typename LengthT, AttentionForm FORM, int PAGE, bool ONE_QUERY,
          bool LINES, int BLOCK_M, int BLOCK_N, int NUM_STAGES>
KILN_KERNEL void mla_decode_kernel(Out* out, float* lse, const T* q_latent, const T* q_rotary, const T* cache,
                                   const TableT* table, const LengthT* lengths, long long place, MlaIteration it) {
  constexpr int kLatent = FORM.value_dim, kRotary = FORM.head_dim;
  constexpr bool kAreLines = ONE_QUERY || LINES;
  const int program = static_cast<int>(tl::program_id(0)), split = program % it.splits;
  const tl::int64_t first = tl::int64_t{program / it.splits} * BLOCK_M, num_rows = it.queries * it.heads;
  const tl::int64_t request = it.first_request + tl::program_id(1);
  const int length = length_of(lengths + request * it.length_stride, it.most_tokens);
  const TableT* const entries = table + request * it.table_request;
  q_latent += request * it.q_latent.batch;
  q_rotary += request * it.q_rotary.batch;
  // Where results lie takes registers that the loop over keys of 16 bits needs; of 32 bits it spills where it is found
  // behind the loop.
  constexpr bool kIsFoundLate = sizeof(T) == 2;
  const auto own_out = [&] { return out + (split * it.out_split + request * it.out.batch); };
  const auto own_lse = [&] { return lse + (split * it.lse_split + request * it.lse_batch); };
  if constexpr (!kIsFoundLate) {
    out = own_out();
    lse = own_lse();
  }
  const auto row = first + tl::arange<BLOCK_M>();
  const auto rows = tl::expand_dims<1>(row);
  const auto latents = tl::expand_dims<0>(tl::arange<FORM.padded_value_dim()>());
  const auto rotaries = tl::expand_dims<0>(tl::arange<FORM.padded_head_dim()>());
  const auto offsets_of = [&](const auto& numbers, long long query_stride, long long head_stride) {
    return row_offsets<ONE_QUERY>(numbers, it.heads, query_stride, head_stride);
  };
  const StepsOfPart steps = steps_of_part<FORM, BLOCK_M, BLOCK_N>(
      {first, num_rows, static_cast<int>(it.queries), it.heads, length, 0, 0}, split, it.splits);
  // Query by query, whose heads lie at one distance from each other: body(query, its first row, the one behind its
  // last).
  const auto for_each_query = [&](auto are_lines, const auto& body) {
    if constexpr (are_lines.value) {
      body(tl::int64_t{0}, tl::int64_t{0}, num_rows);
    } else {
      const tl::int64_t past = first + BLOCK_M < num_rows ? first + BLOCK_M : num_rows;
      KILN_NO_UNROLL for (tl::int64_t query = first / it.heads; query * it.heads < past; ++query)
          body(query, query * it.heads, query * it.heads + it.heads);
    }
  };
  const auto store_lse = [&](const auto& values) {
    float* const own = kIsFoundLate ? own_lse() : lse;
    for_each_query(Flag<ONE_QUERY>{}, [&](tl::int64_t query, tl::int64_t begin, tl::int64_t end) {
      tl::store(own + (query * it.lse_row - begin * it.lse_head) + row * it.lse_head, values,
                (row < end) & (row >= begin));
    });
  };
  if (steps.num_steps == 0 && split > 0) {
    store_lse(-INFINITY);
    return;
  }

  const auto latent_queries = tl::pipeline_operand([&] {
    return tl::deferred_load(q_latent + (offsets_of(rows, it.q_latent.row, it.q_latent.head) +
                                         along_head<FORM>(latents, it.q_latent.element)),
                             within_head<kLatent>(rows < num_rows, latents));
  });
  const auto rotary_queries = tl::pipeline_operand([&] {
    return tl::deferred_load(q_rotary + (offsets_of(rows, it.q_rotary.row, it.q_rotary.head) +
                                         along_head<FORM>(rotaries, it.q_rotary.element)),
                             within_head<kRotary>(rows < num_rows, rotaries));
  });
  auto acc = tl::dot_accumulator<T, BLOCK_M, FORM.padded_value_dim()>();
  const float factor = FORM.scales_first ? kLog2E : it.scale * kLog2E;
  // Zeros in the layout of the scores' rows.
  const auto no_rows = tl::max<1>(tl::cast<float>(tl::dot_accumulator<T, BLOCK_M, BLOCK_N>()));
  auto largest = no_rows + kLowestScore;
  auto total = no_rows;
  // Each row's own place, counted from the first step's first token. Rows of a program are so few that the quotient is
  // right.
  auto own_place = no_rows;
  if constexpr (FORM.has_high) {
    const int query = static_cast<int>(first) / it.heads;
    const auto of_query = no_rows + (row - tl::int64_t{query} * it.heads);
    own_place = tl::floor((of_query + 0.5f) / static_cast<float>(it.heads)) +
                static_cast<float>(query + steps.own - steps.begin);
  }

  int step = 0;
  tl::pipeline<NUM_STAGES>(
      steps.num_steps,
      [&](tl::int64_t at) {
        const tl::int64_t from = steps.begin + at * BLOCK_N;
        const auto places = token_places<PAGE, BLOCK_N, 1>(entries, it.table_entry, it.cache, place, from, steps.end);
        const auto there = from + tl::expand_dims<1>(tl::arange<BLOCK_N>()) < steps.end;
        const T* const rotary = cache + kLatent * (FORM.is_dense ? 1 : it.cache.element_stride);
        return tl::Tuple{tl::deferred_load(cache + (places + along_head<FORM>(latents, it.cache.element_stride)),
                                           within_head<kLatent>(there, latents)),
                         tl::deferred_load(rotary + (places + along_head<FORM>(rotaries, it.cache.element_stride)),
                                           within_head<kRotary>(there, rotaries))};
      },
      [&](const auto& latent_tile, const auto& rotary_tile) {
        auto x = scaled_scores<FORM>(tl::cast<float>(tl::dot(rotary_queries, tl::trans(rotary_tile),
                                                             tl::dot(latent_queries, tl::trans(latent_tile)))),
                                     it.scale, 0.f);
        if (step >= steps.whole_to) {
          const auto keys = steps.begin + step * BLOCK_N + tl::expand_dims<0>(tl::arange<BLOCK_N>());
          x = tl::where(keys < steps.end, x, -INFINITY);
          if constexpr (FORM.has_high) {
            const auto place = tl::cast<float>(tl::dot_accumulator<T, BLOCK_M, BLOCK_N>()) + (keys - steps.begin);
            x = tl::where(place <= tl::expand_dims<1>(own_place), x, -INFINITY);
          }
        }
        add_keys<T, FORM.scales_first>(x, factor, latent_tile, largest, total, acc);
        ++step;
      });

  if constexpr (kIsFoundLate) out = own_out();
  const auto result = tl::cast<Out>(acc * tl::expand_dims<1>(weight_of_sums(total)));
  for_each_query(Flag<kAreLines>{}, [&](tl::int64_t query, tl::int64_t begin, tl::int64_t end) {
    tl::store(out + (query * it.out.row - begin * it.out.head) +
                  (rows * it.out.head + along_head<FORM>(latents, it.out.element)),
              result, within_head<kLatent>((rows < end) & (rows >= begin), latents));
  });
  if constexpr (FORM.returns_lse) store_lse(log_of_sums<FORM.scales_first>(largest, total));
}

}  // namespace kiln::ops
