#pragma once

#include "compiler/tl/traits.hpp"

namespace kiln::tl {

struct float16;
struct bfloat16;
struct float8e4m3;
struct float8e5m2;

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

}  // namespace kiln::tl
