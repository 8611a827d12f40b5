#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/kernel_operand.hpp"
#include "ops/attention/kernel_parts.hpp"
#include "ops/attention/kernel_scores.hpp"
#include "ops/attention/kernel_softmax.hpp"

namespace kiln::ops {

/// softmax(scores) @ v for BLOCK_M queries of one head from `first` on, which goes through the keys that one of them
/// sees by BLOCK_N. Weights are multiplied by values as numbers of P. Pointers are to request 0 and head 0; places says
/// where rows of k and v lie (kernel_places.hpp).
template <typename P, AttentionForm FORM, int BLOCK_M, int BLOCK_N, int NUM_STAGES, typename Out, typename Q,
          typename K, typename V, typename M, typename S, typename Places>
KILN_DEVICE void attend_block(Out* out, float* lse, const Q* q, const K* k, const V* v, const M* mask,
                              const float* slopes, const S* sinks, const HeadScales& scales, const Places& places,
                              const AttentionIteration& it, tl::int64_t first, tl::int64_t head, tl::int64_t request) {
  constexpr int kDim = FORM.head_dim, kValueDim = FORM.value_dim;
  const tl::int64_t key_head = static_cast<int>(head) / it.group;
  q += request * it.q.batch + head * it.q.head;
  k += request * it.k.batch + key_head * it.k.head;
  v += request * it.v.batch + key_head * it.v.head;
  if constexpr (FORM.has_mask) mask += request * it.mask.batch + head * it.mask.head;
  // Where warps copy, the loop has no register to spare for this; other kernels spill where it stands behind the loop.
  const auto find_results = [&] { out += request * it.out.batch + head * it.out.head; };
  if constexpr (tl::kNumCopyWarps == 0) find_results();
  const auto rows = first + tl::expand_dims<1>(tl::arange<BLOCK_M>());

  constexpr int kKeyParts = parts_of_head(kDim).count(), kValueParts = parts_of_head(kValueDim).count();
  using Operand = ScoreOperand<P, Q, K, parts_of_head(kDim).least()>;
  // Queries of two tiles would leave no room in declared shared memory for sums on their way to memory; what is cast
  // step by step, and where tokens of pages lie, need the room too.
  constexpr bool kAreLarge = !tl::is_same<K, Operand> || !tl::is_same<V, P> || Places::kBeginsAtSteps ||
                             BLOCK_M * parts_of_head(kDim).numbers() * sizeof(Operand) > 32 * 1024;
  const auto queries = parts_of<kDim>([&](auto part) {
    using Part = decltype(part);
    const auto dims = Part::dims();
    constexpr bool kIsLarge = kAreLarge && Part::kFirst == 0;
    return tl::pipeline_operand<kIsLarge>([&] {
      return load_queries<Operand>(
          q + Part::template offset<FORM>(it.q.element) + (rows * it.q.row + along_head<FORM>(dims, it.q.element)),
          within_head<Part::kCount>(rows < it.queries, dims));
    });
  });
  auto acc = parts_of<kValueDim>([](auto part) { return tl::dot_accumulator<P, BLOCK_M, decltype(part)::kExtent>(); });
  const float scale = scale_of_scores<FORM>(scales, it, request, key_head);
  // In units of log(2) where one multiplication by scale and log2(e) is all that scores need.
  const float factor = FORM.scales_first ? kLog2E : scale * kLog2E;
  float largest_at_first = kLowestScore, total_at_first = 0, slope = 0;
  if constexpr (FORM.has_sinks) {
    const float sink = tl::cast<float>(tl::load(sinks + head * it.sink_head));
    const float score = FORM.scales_first ? sink : sink * kLog2E;
    if (score > kLowestScore) largest_at_first = score;
    total_at_first = sink == -INFINITY ? 0.f : sink - sink + 1;  // NaN where the sink is none, or infinite
  }
  if constexpr (FORM.has_slopes) slope = tl::load(slopes + (request * it.slope_batch + head * it.slope_head));
  auto largest = tl::max<1>(acc.first) + largest_at_first;  // in the layout of a product's rows
  auto total = tl::sum<1>(acc.first) + total_at_first;

  // Keys that one of the queries sees, and of these the ones that all of them see.
  tl::int64_t begin = 0, end = it.keys, all_from = 0, all_to = it.keys;
  if constexpr (FORM.has_low) {
    if (first + it.low > 0) begin = first + it.low;
    all_from = first + BLOCK_M - 1 + it.low;
  }
  if constexpr (FORM.has_high) {
    if (first + BLOCK_M + it.high < end) end = first + BLOCK_M + it.high;
    if (first + 1 + it.high < end) all_to = first + 1 + it.high;
  }
  if constexpr (Places::kBeginsAtSteps) begin = begin / BLOCK_N * BLOCK_N;
  const tl::int64_t num_steps = end > begin ? (end - begin + BLOCK_N - 1) / BLOCK_N : 0;
  const int whole_from = all_from > begin ? static_cast<int>((all_from - begin + BLOCK_N - 1) / BLOCK_N) : 0;
  const int whole_to = all_to > begin ? static_cast<int>((all_to - begin) / BLOCK_N) : 0;
  const auto key_loads = [&](tl::int64_t at) {
    const tl::int64_t from = begin + at * BLOCK_N;
    const auto here = from + tl::expand_dims<1>(tl::arange<BLOCK_N>());
    return parts_of<kDim>([&](auto part) {
      using Part = decltype(part);
      const auto dims = Part::dims();
      return tl::deferred_load(places.template keys<BLOCK_N>(k + Part::template offset<FORM>(it.k.element), from,
                                                             it.keys, along_head<FORM>(dims, it.k.element)),
                               tl::trans(within_head<Part::kCount>(here < it.keys, dims)));
    });
  };
  const auto value_loads = [&](tl::int64_t at) {
    const tl::int64_t from = begin + at * BLOCK_N;
    const auto here = from + tl::expand_dims<1>(tl::arange<BLOCK_N>());
    return parts_of<kValueDim>([&](auto part) {
      using Part = decltype(part);
      const auto dims = Part::dims();
      return tl::deferred_load(places.template values<BLOCK_N>(v + Part::template offset<FORM>(it.v.element), from,
                                                               it.keys, along_head<FORM>(dims, it.v.element)),
                               within_head<Part::kCount>(here < it.keys, dims));
    });
  };
  int step = 0;
  const auto scores_of = [&](const auto&... key_tiles) {
    return product_of_parts<Operand>(queries, tl::Tuple{key_tiles...});
  };
  const auto seen_scores = [&](const auto& products) {
    auto x = tl::cast<float>(products);
    const auto keys = begin + tl::int64_t{step} * BLOCK_N + tl::expand_dims<0>(tl::arange<BLOCK_N>());
    if constexpr (FORM.scales_first || FORM.has_mask)
      x = biased_scores<FORM>(x, tl::cast<float>(tl::dot_accumulator<Operand, BLOCK_M, BLOCK_N>()), rows, keys, mask,
                              scale, slope, it);
    if (step >= whole_to || (FORM.has_low && step < whole_from)) x = visible_scores<FORM>(x, rows, keys, it);
    ++step;
    return x;
  };
  if constexpr (tl::kNumCopyWarps > 0) {
    auto p = tl::cast<P>(tl::cast<float>(tl::dot_accumulator<P, BLOCK_M, BLOCK_N>()));
    auto totals = tl::partial_sums(acc.first);
    totals = totals + total_at_first / decltype(totals)::shape::kColumns;
    tl::chained_pipeline<NUM_STAGES>(
        num_steps, key_loads, value_loads, scores_of,
        [&](const auto& products) {
          weigh_keys<P, FORM.scales_first>(seen_scores(products), factor, largest, totals, acc, p);
        },
        [&](const auto&... value_tiles) { acc = weighted_sums<P>(p, tl::Tuple{value_tiles...}, acc); });
    total = tl::sum<1>(totals);
  } else {
    tl::pipeline<NUM_STAGES>(
        num_steps, [&](tl::int64_t at) { return tl::joined(key_loads(at), value_loads(at)); },
        [&](const auto&... step_tiles) {
          const tl::Tuple tiles{step_tiles...};
          const auto x = seen_scores(product_of_parts<Operand>(queries, parts_from<0, kKeyParts>(tiles)));
          add_keys<P, FORM.scales_first>(x, factor, parts_from<kKeyParts, kValueParts>(tiles), largest, total, acc);
        });
  }

  if constexpr (tl::kNumCopyWarps > 0) find_results();
  const auto weights = with_value_scale<FORM>(weight_of_sums(total), scales, it, request, key_head);
  for_parts<kValueDim>(acc, [&](auto part, const auto& sums) {
    using Part = decltype(part);
    const auto dims = Part::dims();
    tl::store(out + Part::template offset<FORM>(it.out.element) +
                  (rows * it.out.row + along_head<FORM>(dims, it.out.element)),
              tl::cast<Out>(sums * tl::expand_dims<1>(weights)), within_head<Part::kCount>(rows < it.queries, dims));
  });
  if constexpr (FORM.returns_lse) {
    const auto places = first + tl::arange<BLOCK_M>();
    tl::store(lse + request * it.lse_batch + head * it.lse_head + places * it.lse_row,
              log_of_sums<FORM.scales_first>(largest, total), places < it.queries);
  }
}

}  // namespace kiln::ops
