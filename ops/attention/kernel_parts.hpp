#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/kernel_form.hpp"
#include "ops/attention/kernel_operand.hpp"

namespace kiln::ops {

// Tiles of a head (HeadParts) come as Tuples of one or two, so that what is done to a head is written once.

/// One of them: numbers of the head from kFirst on, of which the head has kCount.
template <int kFirstNumber, int kNumbers, int kHeadNumbers>
struct HeadPart {
  static constexpr int kFirst = kFirstNumber, kExtent = kNumbers, kCount = kHeadNumbers;

  /// Its numbers along a tile's other axis, counted from kFirst.
  static KILN_DEVICE auto dims() { return tl::expand_dims<0>(tl::arange<kExtent>()); }
  /// How far behind the head's first number it begins. Apart from the numbers themselves, so that rows of a tile begin
  /// at a pointer.
  template <AttentionForm kForm>
  static KILN_DEVICE long long offset(long long stride) {
    return kForm.is_dense ? kFirst : kFirst * stride;
  }
};

/// The Tuple of f(part) for the parts of a head of kDim numbers.
template <int kDim, typename F>
KILN_DEVICE auto parts_of(F f) {
  constexpr HeadParts kTiles = parts_of_head(kDim);
  if constexpr (kTiles.count() == 1)
    return tl::Tuple{f(HeadPart<0, kTiles.first, kDim>{})};
  else
    return tl::Tuple{f(HeadPart<0, kTiles.first, kTiles.first>{}),
                     f(HeadPart<kTiles.first, kTiles.second, kDim - kTiles.first>{})};
}

/// f(part, tile) for each part and what there is of it.
template <int kDim, typename Tiles, typename F>
KILN_DEVICE void for_parts(const Tiles& tiles, F f) {
  constexpr HeadParts kTiles = parts_of_head(kDim);
  if constexpr (kTiles.count() == 1) {
    f(HeadPart<0, kTiles.first, kDim>{}, tiles.first);
  } else {
    f(HeadPart<0, kTiles.first, kTiles.first>{}, tiles.first);
    f(HeadPart<kTiles.first, kTiles.second, kDim - kTiles.first>{}, tiles.second);
  }
}

/// The Tuple of kCount parts of x from kFirst on, one or two.
template <int kFirst, int kCount, typename X>
KILN_DEVICE auto parts_from(const X& x) {
  if constexpr (kCount == 1)
    return tl::Tuple{tl::part_of<kFirst>(x)};
  else
    return tl::Tuple{tl::part_of<kFirst>(x), tl::part_of<kFirst + 1>(x)};
}

/// Queries times keys, which become operands of type T: the sum over the parts of heads.
template <typename T, typename Queries, typename Keys>
KILN_DEVICE auto product_of_parts(const Queries& queries, const Keys& keys) {
  if constexpr (tl::kParts<Queries> == 1)
    return tl::dot(queries.first, as_operand<T>(keys.first));
  else
    return tl::dot(queries.second, as_operand<T>(keys.second), tl::dot(queries.first, as_operand<T>(keys.first)));
}

}  // namespace kiln::ops
