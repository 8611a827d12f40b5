#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration_merge.hpp"
#include "ops/common/kernel_place.hpp"

namespace kiln::ops {

/// One row of attention out of what it is for disjoint sets of keys: sum(exp(lse_i) out_i) / sum(exp(lse_i)), PARTS
/// parts at a time. A part whose lse is -inf counts for nothing, whatever its row holds.
template <typename In, typename Out, bool RETURNS_LSE, bool IS_DENSE, int PARTS, int BLOCK_N>
KILN_KERNEL void merge_attention_kernel(Out* out, float* lse, const In* outs, const float* lses, MergeIteration it) {
  const tl::int64_t place = tl::program_id(0);
  out += line_start<0>(it.places, place);
  outs += line_start<1>(it.places, place);
  lses += line_start<3>(it.places, place);
  const auto column = tl::program_id(1) * BLOCK_N + tl::arange<BLOCK_N>();
  const auto columns = tl::expand_dims<0>(column);
  const auto along_row = [](const auto& numbers, long long stride) {
    if constexpr (IS_DENSE)
      return numbers;
    else
      return numbers * stride;
  };
  const auto parts_from = [](tl::int64_t first) { return first + tl::expand_dims<1>(tl::arange<PARTS>()); };
  const auto scores_of = [&](const auto& parts) {
    return tl::load(lses + parts * it.lses_part, parts < it.parts, -INFINITY);
  };

  const auto values_of = [&](const auto& parts) {
    return tl::load(outs + (parts * it.outs_part + along_row(columns, it.places.steps[1])),
                    (parts < it.parts) & (columns < it.places.length));
  };

  // Rows of the first parts, which mostly are all, are asked for together with what they weigh.
  const auto first_scores = scores_of(parts_from(0));
  const auto first_values = values_of(parts_from(0));
  auto largest_of_each = first_scores;
  KILN_NO_UNROLL for (tl::int64_t first = PARTS; first < it.parts; first += PARTS) largest_of_each =
      tl::maximum(largest_of_each, scores_of(parts_from(first)));
  const float found = tl::max(largest_of_each), largest = found == -INFINITY ? 0.f : found;

  auto sums = tl::zeros<float, PARTS, BLOCK_N>();
  auto weights = tl::zeros<float, PARTS, 1>();
  const auto add = [&](const auto& scores, const auto& values) {
    const auto weight = tl::exp(scores - largest);
    sums = sums + tl::where(scores == -INFINITY, 0.f, weight * tl::cast<float>(values));
    weights = weights + weight;
  };
  add(first_scores, first_values);
  KILN_NO_UNROLL for (tl::int64_t first = PARTS; first < it.parts; first += PARTS)
      add(scores_of(parts_from(first)), values_of(parts_from(first)));
  const float total = tl::sum(weights);
  const auto row = tl::sum<0>(sums) * (total == 0 ? 0.f : 1.f / total);
  tl::store(out + along_row(column, it.places.steps[0]), tl::cast<Out>(row), column < it.places.length);
  if constexpr (RETURNS_LSE)
    if (tl::program_id(1) == 0) tl::store(lse + line_start<2>(it.places, place), largest + tl::scalar::log(total));
}

}  // namespace kiln::ops
