#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::ops {

/// The numbers of heads along a tile's other axis.
template <AttentionForm kForm, typename Dims>
KILN_DEVICE auto along_head(const Dims& dims, long long stride) {
  if constexpr (kForm.is_dense)
    return dims;
  else
    return dims * stride;
}

/// `lines`, and of a head that is no power of two numbers the first kDim.
template <int kDim, typename Lines, typename Dims>
KILN_DEVICE auto within_head(const Lines& lines, const Dims& dims) {
  if constexpr (kDim == Dims::shape::kColumns)
    return lines;
  else
    return lines & (dims < kDim);
}

/// The mask of `rows` of queries and of `keys`, which lies as x does; 0 outside.
template <AttentionForm kForm, typename X, typename Rows, typename Keys, typename M>
KILN_DEVICE auto mask_of_scores(const X& x, const Rows& rows, const Keys& keys, const M* mask,
                                const AttentionIteration& it) {
  const auto there = (rows < it.queries) & (keys < it.keys);
  if constexpr (kForm.has_dense_mask)
    return tl::load_like(x, mask + (rows * it.mask.row + keys), there);
  else
    return tl::load_like(x, mask + (rows * it.mask.row + keys * it.mask.element), there);
}

/// Products, scaled and capped where that comes before anything else.
template <AttentionForm kForm, typename X>
KILN_DEVICE X scaled_scores(const X& products, float scale, float softcap) {
  if constexpr (kForm.caps)
    return tl::tanh(products * (scale / softcap)) * softcap;
  else if constexpr (kForm.scales_first)
    return products * scale;
  else
    return products;
}

/// Scores of `rows` of queries and of `keys`: products, scaled and capped, and what is added. `zeros` lies as they do;
/// mask, scale and slope are the head's.
template <AttentionForm kForm, typename X, typename Rows, typename Keys, typename M>
KILN_DEVICE X biased_scores(const X& products, const X& zeros, const Rows& rows, const Keys& keys, const M* mask,
                            float scale, float slope, const AttentionIteration& it) {
  X x = scaled_scores<kForm>(products, scale, it.softcap);
  if constexpr (kForm.has_slopes) x = x - tl::abs(zeros + (keys - rows - it.diagonal)) * slope;
  if constexpr (kForm.has_mask && tl::is_same<M, bool>)
    x = tl::where(mask_of_scores<kForm>(x, rows, keys, mask, it), x, -INFINITY);
  else if constexpr (kForm.has_mask)
    x = x + tl::cast<float>(mask_of_scores<kForm>(x, rows, keys, mask, it));
  return x;
}

/// The same with -inf for keys that a query does not see by its place.
template <AttentionForm kForm, typename X, typename Rows, typename Keys>
KILN_DEVICE X visible_scores(const X& scores, const Rows& rows, const Keys& keys, const AttentionIteration& it) {
  X x = scores;
  if constexpr (kForm.has_high) x = tl::where(keys - rows <= it.high, x, -INFINITY);
  if constexpr (kForm.has_low) x = tl::where(keys - rows >= it.low, x, -INFINITY);
  if constexpr (kForm.checks_keys) x = tl::where(keys < it.keys, x, -INFINITY);
  return x;
}

}  // namespace kiln::ops
