#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/kernel_operand.hpp"

namespace kiln::ops {

// Softmax over keys that are seen step by step, with the values added as their weights become known. The running
// maximum and total are those of Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), put to
// this use by Dao et al., "FlashAttention" (2022). Scores that were scaled before (`kScalesFirst`) take a factor of
// log2(e); where one multiplication is all that scores need, it is scale * log2(e), and `largest` is in units of
// log(2).

inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;
/// Where a row's largest score begins: a number, so that the difference to a hidden key's score, -inf, is no NaN.
inline constexpr float kLowestScore = -3.40282347e+38f;

/// How far, in units of log(2), a row's scores may lie above the number that stands for its largest one before that
/// moves up: weights of up to 2^8 lose nothing, and sums that need not fade in a step need not be read (Zadouri et al.,
/// "FlashAttention-4", 2026).
inline constexpr float kSlack = 8;

/// Adds a step's keys to their rows' largest scores, totals and sums of values, by products of T; values and sums are a
/// tile each or a Tuple of as many.
template <typename T, bool kScalesFirst, typename X, typename Values, typename Rows, typename Sums>
KILN_DEVICE void add_keys(const X& x, float factor, const Values& values, Rows& largest, Rows& total, Sums& sums) {
  using First = tl::remove_cvref_t<decltype(tl::part_of<0>(sums))>;
  constexpr bool kKeepsLargest = tl::kSparesFactorsOfOne<First>;
  // Weights behind the question whether sums fade are computed while the first of them are multiplied, which is worth
  // 5% of heads of 128 and costs 2% of those of 256 (H100).
  constexpr bool kFadesFirst = kKeepsLargest && First::shape::kColumns == 128;
  const float unit = kScalesFirst ? factor : 1;
  const auto row_largest = kScalesFirst ? tl::max<1>(x) : tl::max<1>(x) * factor;
  const auto now_largest = [&] {
    if constexpr (kKeepsLargest)
      return tl::where((row_largest - largest) * unit > kSlack, row_largest, largest);
    else
      return tl::maximum(largest, row_largest);
  }();
  const auto fade = tl::exp2((largest - now_largest) * unit);
  // All sums fade before the first product begins: who reads sums waits for every product there is.
  const auto faded = [&] {
    return tl::map_parts([&](const auto& sum) { return sum * tl::expand_dims<1>(fade); }, sums);
  };
  const auto weights = [&] {
    if constexpr (kScalesFirst)
      return tl::exp2((x - tl::expand_dims<1>(now_largest)) * factor);
    else
      return tl::exp2(x * factor - tl::expand_dims<1>(now_largest));
  };
  const auto add = [&](const auto& p, const auto& faded_sums) {
    total = total * fade + tl::sum<1>(p);
    sums = tl::map_parts(
        [&](const auto& value, const auto& sum) { return tl::dot(tl::cast<T>(p), as_operand<T>(value), sum); }, values,
        faded_sums);
  };
  if constexpr (kFadesFirst) {
    const auto faded_sums = faded();
    add(weights(), faded_sums);
  } else {
    const auto p = weights();
    add(p, faded());
  }
  largest = now_largest;
}

/// sums + p @ values. The weights p are not read again.
template <typename T, typename P, typename Values, typename Sums>
KILN_DEVICE auto weighted_sums(P& p, const Values& values, const Sums& sums) {
  return tl::map_parts(
      [&](const auto& value, const auto& sum) { return tl::dot(static_cast<P&&>(p), as_operand<T>(value), sum); },
      values, sums);
}

/// The same for tl::chained_pipeline: what stands between the products of a step, whose weights p the second one takes.
/// `total` is tl::partial_sums'.
template <typename T, bool kScalesFirst, typename X, typename Rows, typename Totals, typename Sums, typename P>
KILN_DEVICE void weigh_keys(const X& x, float factor, Rows& largest, Totals& total, Sums& sums, P& p) {
  const float unit = kScalesFirst ? factor : 1;
  const auto row_largest = kScalesFirst ? tl::max<1>(x) : tl::max<1>(x) * factor;
  const auto now_largest = tl::where((row_largest - largest) * unit > kSlack, row_largest, largest);
  const auto fade = tl::expand_dims<1>(tl::exp2((largest - now_largest) * unit));
  const auto weights = [&] {
    if constexpr (kScalesFirst)
      return tl::exp2((x - tl::expand_dims<1>(now_largest)) * factor);
    else
      return tl::exp2(x * factor - tl::expand_dims<1>(now_largest));
  }();
  total = total * fade + tl::partial_sums(weights);
  const auto fade_sums = [&](auto& sum) {
    tl::dot_wait(sum, total);
    sum = sum * fade;
    return true;
  };
  tl::map_parts(fade_sums, sums);
  p = tl::cast<T>(weights);
  largest = now_largest;
}

/// What rows' sums of values are multiplied by. A row that saw nothing has 0 for its total, and for its sums.
template <typename Rows>
KILN_DEVICE auto weight_of_sums(const Rows& total) {
  return tl::where(total == 0.f, 0.f, 1.f / total);
}

/// The natural logarithm of each row's sum of exp(score).
template <bool kScalesFirst, typename Rows>
KILN_DEVICE auto log_of_sums(const Rows& largest, const Rows& total) {
  if constexpr (kScalesFirst)
    return largest + tl::log(total);
  else
    return (largest + tl::log2(total)) * kLn2;
}

}  // namespace kiln::ops
