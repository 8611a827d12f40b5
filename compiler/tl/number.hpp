#pragma once

#include "compiler/tl/narrow_float.hpp"
#include "compiler/tl/number_traits.hpp"

namespace kiln::tl {

/// The type arithmetic on T runs in.
template <Number T>
using compute_t = conditional_t<NumberTraits<T>::kIsNarrowFloat, float, T>;

/// Triton's rule for two tiles: a float beats an integer, the wider beats the narrower, two different 16-bit floats
/// meet in float, unsigned beats signed of the same width.
template <Number A, Number B>
struct Promote {
  static constexpr bool kSameKind = NumberTraits<A>::kIsFloating == NumberTraits<B>::kIsFloating;
  static constexpr bool kFirst = !kSameKind               ? NumberTraits<A>::kIsFloating
                                 : sizeof(A) != sizeof(B) ? (sizeof(A) > sizeof(B))
                                 : is_same<A, bool>       ? false
                                 : is_same<B, bool>       ? true
                                                          : !NumberTraits<A>::kIsSigned;
  static constexpr bool kMeetInFloat =
      kSameKind && !is_same<A, B> && NumberTraits<A>::kIsNarrowFloat && NumberTraits<B>::kIsNarrowFloat;
  using type = conditional_t<kMeetInFloat, float, conditional_t<kFirst, A, B>>;
};
template <Number A, Number B>
using promote_t = typename Promote<A, B>::type;

/// A scalar beside a tile changes the tile's type only where it is a float and the tile is not, where the tile is bool,
/// or where it is a 64-bit integer and the tile holds narrower ones: 32-bit indices times a stride must not wrap
/// (Triton's run-time integers promote too, and its literals, which are 32 bits wide in C++, do not).
template <Number TileValue, Number Scalar>
struct PromoteScalar {
  using type = TileValue;
};
template <Integer TileValue, Floating Scalar>
struct PromoteScalar<TileValue, Scalar> {
  using type = conditional_t<is_same<Scalar, double>, float, Scalar>;
};
template <Integer TileValue, Integer Scalar>
  requires(is_same<TileValue, bool> || (sizeof(TileValue) < 8 && sizeof(Scalar) == 8))
struct PromoteScalar<TileValue, Scalar> {
  using type = promote_t<TileValue, Scalar>;
};
template <Number TileValue, Number Scalar>
using promote_scalar_t = typename PromoteScalar<TileValue, Scalar>::type;

/// The type a scalar and a tile are compared in: a wider integer is not cut, so that every int8 is less than 1000.
template <Number TileValue, Number Scalar>
struct CompareScalar : PromoteScalar<TileValue, Scalar> {};
template <Integer TileValue, Integer Scalar>
  requires(sizeof(Scalar) > sizeof(TileValue))
struct CompareScalar<TileValue, Scalar> {
  using type = promote_t<TileValue, Scalar>;
};
template <Number TileValue, Number Scalar>
using compare_scalar_t = typename CompareScalar<TileValue, Scalar>::type;

/// x / divisor, rounded up: of x of 0 or more, and a divisor above 0.
template <Integer A, Integer B>
KILN_DEVICE constexpr auto cdiv(A x, B divisor) {
  return (x + divisor - 1) / divisor;
}

}  // namespace kiln::tl
