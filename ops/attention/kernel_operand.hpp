#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration.hpp"
#include "ops/attention/kernel_form.hpp"

// Queries, keys and values of 8 bits as operands of products, and what they stand for.

namespace kiln::ops {

/// The type in which queries Q and keys K of tiles of kLeastDim numbers or more are multiplied: their own where it is
/// one that products take, P otherwise.
template <typename P, typename Q, typename K, int kLeastDim>
using ScoreOperand = tl::conditional_t<tl::is_same<Q, K> && (sizeof(K) > 1 || kLeastDim >= kLeastByteDim), K, P>;

/// A tile as an operand of type P.
template <typename P, typename Tile>
KILN_DEVICE decltype(auto) as_operand(const Tile& tile) {
  if constexpr (tl::is_same<typename Tile::value_type, P>)
    return (tile);
  else
    return tl::cast<P>(tile);
}

/// A load of queries as a dot_operand of numbers of P makes it. Called in its lambda, so that addresses live no longer.
template <typename P, typename Pointers, typename Mask>
KILN_DEVICE auto load_queries(const Pointers& pointers, const Mask& mask) {
  if constexpr (tl::is_same<tl::pointee_t<Pointers>, P>)
    return tl::deferred_load(pointers, mask);
  else
    return tl::cast<P>(tl::load(pointers, mask));
}

/// The scales of all heads.
struct HeadScales {
  const float *q, *k, *v;
};

/// By which products of queries and keys are multiplied, `scale` included.
template <AttentionForm FORM, typename Iteration>
KILN_DEVICE float scale_of_scores(const HeadScales& scales, const Iteration& it, tl::int64_t request,
                                  tl::int64_t key_head) {
  float scale = it.scale;
  if constexpr (FORM.has_query_scale)
    scale = scale * tl::load(scales.q + (request * it.q_scale.request + key_head * it.q_scale.head));
  if constexpr (FORM.has_key_scale)
    scale = scale * tl::load(scales.k + (request * it.k_scale.request + key_head * it.k_scale.head));
  return scale;
}

/// `weights` of sums of values, and what values are multiplied by.
template <AttentionForm FORM, typename Iteration, typename Weights>
KILN_DEVICE auto with_value_scale(const Weights& weights, const HeadScales& scales, const Iteration& it,
                                  tl::int64_t request, tl::int64_t key_head) {
  if constexpr (FORM.has_value_scale)
    return weights * tl::load(scales.v + (request * it.v_scale.request + key_head * it.v_scale.head));
  else
    return weights;
}

}  // namespace kiln::ops
