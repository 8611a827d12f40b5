#pragma once

#include "compiler/tl/math.hpp"
#include "compiler/tl/tuple.hpp"

namespace kiln::tl {

/// Whether combine(x, y) and combine(y, x) are equal to the last bit. With others a reduction on a GPU takes care that
/// all lanes get one result.
template <typename F>
concept Symmetric = F::kSymmetric;

/// Whether a tile's axis is reduced where the tile lies, in a layout other than the default one.
template <int kAxis, typename TileT>
inline constexpr bool kReducesInPlace = false;

/// Where lanes have parts of a row's sum that others need not have: the tile of those parts (see partial_sums).
template <typename TileT>
struct PartialSums {
  static constexpr bool kPossible = false;
};

}  // namespace kiln::tl

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/reduce_tile.hpp"
#else
#include "compiler/tl/cpu/reduce_tile.hpp"
#endif

namespace kiln::tl {

/// What a reduction over T accumulates in: float for narrow floats, 32 bits for narrow integers.
template <Number T>
using accumulator_t =
    conditional_t<NumberTraits<T>::kIsFloating, compute_t<T>,
                  conditional_t<(sizeof(T) >= 4), T,
                                conditional_t<NumberTraits<T>::kIsSigned || is_same<T, bool>, int32_t, uint32_t>>>;

// Combinations of two numbers, equal either way round to the last bit.
struct SumOp {
  static constexpr bool kSymmetric = true;
  template <Number T>
  KILN_DEVICE T operator()(T x, T y) const {
    return wrapping(x, y, [](auto u, auto v) { return u + v; });
  }
};
struct ProdOp {
  static constexpr bool kSymmetric = true;
  template <Number T>
  KILN_DEVICE T operator()(T x, T y) const {
    return wrapping(x, y, [](auto u, auto v) { return u * v; });
  }
};
template <PropagateNan kPropagate>
struct MaxOp {
  static constexpr bool kSymmetric = true;
  template <Number T>
  KILN_DEVICE T operator()(T x, T y) const {
    return larger_number<kPropagate>(x, y);
  }
};
template <PropagateNan kPropagate>
struct MinOp {
  static constexpr bool kSymmetric = true;
  template <Number T>
  KILN_DEVICE T operator()(T x, T y) const {
    return smaller_number<kPropagate>(x, y);
  }
};

/// The more extreme of two (value, index) pairs. NaN is the extremum, as in NumPy and torch; of equals the lower index
/// wins, so that no order of combining changes the result.
template <bool kLargest>
struct ExtremumOp {
  static constexpr bool kSymmetric = true;
  template <Number T, Integer I>
  KILN_DEVICE Tuple<T, I> operator()(const Tuple<T, I>& x, const Tuple<T, I>& y) const {
    bool first = kLargest ? x.first > y.first : x.first < y.first;
    bool equal = x.first == y.first;
    if constexpr (Floating<T>) {
      const bool x_is_nan = x.first != x.first, y_is_nan = y.first != y.first;
      first = first | (x_is_nan & !y_is_nan);
      equal = equal | (x_is_nan & y_is_nan);
    }
    first = first | (equal & (x.second < y.second));
    return {first ? x.first : y.first, first ? x.second : y.second};
  }
};

/// `combine` as reductions and scans call it: on numbers of the tiles' dtypes, giving the same.
template <typename E, typename F>
struct Combination {
  F combine;
  KILN_DEVICE E operator()(const E& x, const E& y) const {
    return map_parts([](auto to, auto from) { return cast<decltype(to)>(from); }, x, combine(x, y));
  }
};
template <typename Tiles, typename F>
KILN_DEVICE auto combination_for(const Tiles&, F combine) {
  if constexpr (Symmetric<F>)
    return combine;
  else
    return Combination<element_of_t<Tiles>, F>{combine};
}

/// Tiles as values in the default layout of the first one's shape.
template <typename Tiles>
KILN_DEVICE auto values_together(const Tiles& tiles) {
  using S = shape_of_t<Tiles>;
  return map_parts([](const auto& tile) { return broadcast_to_shape<S>(to_values(tile)); }, tiles);
}

template <int kAxis, typename Tiles>
KILN_DEVICE auto values_along(const Tiles& tiles) {
  if constexpr (kParts<Tiles> != 0)
    return values_together(tiles);
  else if constexpr (kReducesInPlace<kAxis, values_t<Tiles>>)
    return to_values(tiles);
  else
    return values_together(tiles);
}

/// Combines all elements of a tile, or of several tiles side by side (a Tuple of one shape). combine(x, y) takes and
/// returns numbers, or Tuples of numbers; it must be associative and commutative up to rounding. The result is a
/// number, or a Tuple of them. The order depends on nothing but the tiles' shape and num_warps.
template <typename Tiles, typename F>
KILN_DEVICE auto reduce(const Tiles& tiles, F combine) {
  const auto values = values_together(tiles);
  return reduce_all(values, combination_for(values, combine));
}
/// Combines along an axis: of two-dimensional tiles one-dimensional ones remain; of a one-dimensional tile, a number.
template <int kAxis, typename Tiles, typename F>
KILN_DEVICE auto reduce(const Tiles& tiles, F combine) {
  constexpr int kRank = shape_of_t<Tiles>::kRank;
  static_assert(kAxis >= 0 && kAxis < kRank, "a reduction's axis is 0, or 0 or 1 of a two-dimensional tile");
  if constexpr (kRank == 1) {
    return reduce(tiles, combine);
  } else {
    const auto values = values_along<kAxis>(tiles);
    return reduce_axis<kAxis>(values, combination_for(values, combine));
  }
}

template <AnyTile A>
KILN_DEVICE auto accumulators(const A& a) {
  return cast<accumulator_t<typename values_t<A>::value_type>>(to_values(a));
}

// sum(x), prod(x): accumulated and returned in accumulator_t.
#define KILN_TILE_REDUCTION(name, Op, Result)                                                    \
  /** Of all elements, in an order that is fixed: the same tile gives the same bits. */          \
  template <AnyTile A>                                                                           \
  KILN_DEVICE auto name(const A& a) {                                                            \
    return cast<Result<typename values_t<A>::value_type>>(reduce(accumulators(a), Op{}));        \
  }                                                                                              \
  /** Along an axis of a two-dimensional tile; a one-dimensional tile remains. */                \
  template <int kAxis, AnyTile A>                                                                \
  KILN_DEVICE auto name(const A& a) {                                                            \
    return cast<Result<typename values_t<A>::value_type>>(reduce<kAxis>(accumulators(a), Op{})); \
  }
KILN_TILE_REDUCTION(sum, SumOp, accumulator_t)
KILN_TILE_REDUCTION(prod, ProdOp, accumulator_t)
#undef KILN_TILE_REDUCTION

// max(x), min(x): of x's dtype.
#define KILN_TILE_REDUCTION(name, Op)                                                                \
  /** Of all elements. */                                                                            \
  template <PropagateNan kPropagate = PropagateNan::all, AnyTile A>                                  \
  KILN_DEVICE auto name(const A& a) {                                                                \
    return cast<typename values_t<A>::value_type>(reduce(accumulators(a), Op<kPropagate>{}));        \
  }                                                                                                  \
  /** Along an axis of a two-dimensional tile; a one-dimensional tile remains. */                    \
  template <int kAxis, PropagateNan kPropagate = PropagateNan::all, AnyTile A>                       \
  KILN_DEVICE auto name(const A& a) {                                                                \
    return cast<typename values_t<A>::value_type>(reduce<kAxis>(accumulators(a), Op<kPropagate>{})); \
  }
KILN_TILE_REDUCTION(max, MaxOp)
KILN_TILE_REDUCTION(min, MinOp)
#undef KILN_TILE_REDUCTION

/// A tile of x's rows whose own rows add up to x's: as many columns as spare lanes the exchange that sum<1> takes, for
/// sums that go on being added to and are read at the end.
///
///     auto total = tl::partial_sums(x);              // in front of a loop
///     total = total * factors + tl::partial_sums(x);  // in it, a factor for each row
///     const auto rows = tl::sum<1>(total);           // behind it
template <AnyTile A>
KILN_DEVICE auto partial_sums(const A& a) {
  const auto values = accumulators(a);
  static_assert(decltype(values)::shape::kRank == 2, "partial_sums: a tile of two dimensions");
  if constexpr (PartialSums<remove_cvref_t<decltype(values)>>::kPossible)
    return sum_units(values);
  else
    return expand_dims<1>(sum<1>(values));
}

/// Each element with its index: its coordinate along kAxis, or its row-major place in the tile for kAxis = -1.
template <int kAxis, AnyTile A>
KILN_DEVICE auto with_indices(const A& a) {
  using S = typename A::shape;
  using L = DefaultLayout<S>;
  const auto values = broadcast_to_shape<S>(accumulators(a));
  Tile<int32_t, S> indices;
  KILN_UNROLL for (int r = 0; r < indices.kRegisters; ++r) indices.registers[r] =
      kAxis == 0 && S::kRank == 2 ? L::row(r)
      : kAxis == 1                ? L::column(r)
                                  : L::row(r) * S::kColumns + L::column(r);
  return Tuple{values, indices};
}

#define KILN_TILE_EXTREMUM(with_index, index_of, kLargest)                                    \
  /** The Tuple (element, int32 index) of the extremum of all; NaN counts as the extremum. */ \
  template <AnyTile A>                                                                        \
  KILN_DEVICE auto with_index(const A& a) {                                                   \
    const auto found = reduce(with_indices<-1>(a), ExtremumOp<kLargest>{});                   \
    return Tuple{cast<typename values_t<A>::value_type>(found.first), found.second};          \
  }                                                                                           \
  /** The same along an axis: a Tuple of tiles. */                                            \
  template <int kAxis, AnyTile A>                                                             \
  KILN_DEVICE auto with_index(const A& a) {                                                   \
    const auto found = reduce<kAxis>(with_indices<kAxis>(a), ExtremumOp<kLargest>{});         \
    return Tuple{cast<typename values_t<A>::value_type>(found.first), found.second};          \
  }                                                                                           \
  /** The int32 index of the extremum of all, the lowest of equals and of NaNs. */            \
  template <AnyTile A>                                                                        \
  KILN_DEVICE auto index_of(const A& a) {                                                     \
    return with_index(a).second;                                                              \
  }                                                                                           \
  /** The same along an axis: a tile. */                                                      \
  template <int kAxis, AnyTile A>                                                             \
  KILN_DEVICE auto index_of(const A& a) {                                                     \
    return with_index<kAxis>(a).second;                                                       \
  }
KILN_TILE_EXTREMUM(max_with_index, argmax, true)
KILN_TILE_EXTREMUM(min_with_index, argmin, false)
#undef KILN_TILE_EXTREMUM

}  // namespace kiln::tl
