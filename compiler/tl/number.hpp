#pragma once

#include "compiler/tl/traits.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/narrow_float.hpp"
#else
#include "compiler/tl/cpu/narrow_float.hpp"
#endif

namespace kiln::tl {

/// Storage types: arithmetic on them runs in float and rounds once per operation.
struct float16 {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};
struct float8e4m3 {
  uint8_t bits;
};
struct float8e5m2 {
  uint8_t bits;
};

/// What a type is, for promotion and casts. An unknown type has kIsNumber false.
template <typename T>
struct NumberTraits {
  static constexpr bool kIsNumber = false, kIsFloating = false, kIsNarrowFloat = false, kIsSigned = false;
};
template <bool kFloating, bool kNarrow, bool kSigned>
struct NumberTraitsOf {
  static constexpr bool kIsNumber = true, kIsFloating = kFloating, kIsNarrowFloat = kNarrow, kIsSigned = kSigned;
};
template <>
struct NumberTraits<double> : NumberTraitsOf<true, false, true> {};
template <>
struct NumberTraits<float> : NumberTraitsOf<true, false, true> {};
template <>
struct NumberTraits<float16> : NumberTraitsOf<true, true, true> {};
template <>
struct NumberTraits<bfloat16> : NumberTraitsOf<true, true, true> {};
template <>
struct NumberTraits<float8e4m3> : NumberTraitsOf<true, true, true> {};
template <>
struct NumberTraits<float8e5m2> : NumberTraitsOf<true, true, true> {};
template <>
struct NumberTraits<int64_t> : NumberTraitsOf<false, false, true> {};
template <>
struct NumberTraits<long> : NumberTraitsOf<false, false, true> {};
template <>
struct NumberTraits<int32_t> : NumberTraitsOf<false, false, true> {};
template <>
struct NumberTraits<int16_t> : NumberTraitsOf<false, false, true> {};
template <>
struct NumberTraits<int8_t> : NumberTraitsOf<false, false, true> {};
template <>
struct NumberTraits<uint64_t> : NumberTraitsOf<false, false, false> {};
template <>
struct NumberTraits<unsigned long> : NumberTraitsOf<false, false, false> {};
template <>
struct NumberTraits<uint32_t> : NumberTraitsOf<false, false, false> {};
template <>
struct NumberTraits<uint16_t> : NumberTraitsOf<false, false, false> {};
template <>
struct NumberTraits<uint8_t> : NumberTraitsOf<false, false, false> {};
template <>
struct NumberTraits<bool> : NumberTraitsOf<false, false, false> {};

template <typename T>
concept Number = NumberTraits<T>::kIsNumber;
template <typename T>
concept Integer = Number<T> && !NumberTraits<T>::kIsFloating;
template <typename T>
concept Floating = Number<T> && NumberTraits<T>::kIsFloating;

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
