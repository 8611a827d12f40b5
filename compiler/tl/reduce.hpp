#pragma once

#include "compiler/tl/math.hpp"

namespace kiln::tl {

// Associative combinations with their neutral elements.
struct SumOp {
  template <Number T>
  KILN_DEVICE static T neutral() {
    return T{};
  }
  template <Number T>
  KILN_DEVICE static T combine(T x, T y) {
    return wrapping(x, y, [](auto u, auto v) { return u + v; });
  }
};
struct MaxOp {
  template <Number T>
  KILN_DEVICE static T neutral() {
    if constexpr (Floating<T>)
      return -static_cast<T>(INFINITY);
    else
      return IntegerLimits<T>::kMin;
  }
  template <Number T>
  KILN_DEVICE static T combine(T x, T y) {
    return larger_number(x, y);
  }
};
struct MinOp {
  template <Number T>
  KILN_DEVICE static T neutral() {
    if constexpr (Floating<T>)
      return static_cast<T>(INFINITY);
    else
      return IntegerLimits<T>::kMax;
  }
  template <Number T>
  KILN_DEVICE static T combine(T x, T y) {
    return smaller_number(x, y);
  }
};

/// What a reduction over T accumulates in: float for narrow floats, 32 bits for narrow integers.
template <Number T>
using accumulator_t =
    conditional_t<NumberTraits<T>::kIsFloating, compute_t<T>,
                  conditional_t<(sizeof(T) >= 4), T,
                                conditional_t<NumberTraits<T>::kIsSigned || is_same<T, bool>, int32_t, uint32_t>>>;

}  // namespace kiln::tl

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/reduce_tile.hpp"
#else
#include "compiler/tl/cpu/reduce_tile.hpp"
#endif

namespace kiln::tl {

template <AnyTile A>
KILN_DEVICE auto accumulators(const A& a) {
  return cast<accumulator_t<typename values_t<A>::value_type>>(to_values(a));
}

/// Sum of all elements, accumulated and returned in accumulator_t. The order is fixed: the same tile gives the same
/// bits.
template <AnyTile A>
KILN_DEVICE auto sum(const A& a) {
  return reduce_all<SumOp>(accumulators(a));
}
/// Sum along an axis of a two-dimensional tile; a one-dimensional tile remains.
template <int kAxis, AnyTile A>
KILN_DEVICE auto sum(const A& a) {
  return reduce_axis<SumOp, kAxis>(broadcast_to_shape<typename A::shape>(accumulators(a)));
}

#define KILN_TILE_EXTREMUM(name, Op)                                                     \
  template <AnyTile A>                                                                   \
  KILN_DEVICE auto name(const A& a) {                                                    \
    return cast<typename values_t<A>::value_type>(reduce_all<Op>(accumulators(a)));      \
  }                                                                                      \
  template <int kAxis, AnyTile A>                                                        \
  KILN_DEVICE auto name(const A& a) {                                                    \
    return cast<typename values_t<A>::value_type>(                                       \
        reduce_axis<Op, kAxis>(broadcast_to_shape<typename A::shape>(accumulators(a)))); \
  }
/// Largest element, of all or along an axis; NaN propagates.
KILN_TILE_EXTREMUM(max, MaxOp)
/// Smallest element, of all or along an axis; NaN propagates.
KILN_TILE_EXTREMUM(min, MinOp)
#undef KILN_TILE_EXTREMUM

}  // namespace kiln::tl
