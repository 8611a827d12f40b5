#pragma once

#include "compiler/tl/number_traits.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/narrow_float.hpp"
#else
#include "compiler/tl/cpu/narrow_float.hpp"
#endif

namespace kiln::tl {

// Storage types: a number of a narrow float computes in float and rounds once for each operation. With one of its own
// type and with integers it keeps its type, as two tiles do; with float and double, and with another narrow float, it
// is the float that it converts to.
//
// Of a number, T(x) is that number, rounded to nearest even. A constant expression converts as
// core/float_formats.hpp does, which the instructions agree with.
#define KILN_NARROW_FLOAT(name, Bits, format)                                                                          \
  struct name {                                                                                                        \
    Bits bits;                                                                                                         \
                                                                                                                       \
    name() = default;                                                                                                  \
    template <Number From>                                                                                             \
    KILN_DEVICE constexpr explicit name(From x)                                                                        \
        : bits(__builtin_is_constant_evaluated() ? formats::f32_to_##format(static_cast<float>(x))                     \
                                                 : narrow_float::f32_to_##format(static_cast<float>(x))) {}            \
    KILN_DEVICE constexpr operator float() const {                                                                     \
      return __builtin_is_constant_evaluated() ? formats::format##_to_f32(bits) : narrow_float::format##_to_f32(bits); \
    }                                                                                                                  \
    KILN_DEVICE static constexpr name of_bits(Bits bits) {                                                             \
      return __builtin_bit_cast(name, bits);                                                                           \
    }                                                                                                                  \
  };
KILN_NARROW_FLOAT(float16, uint16_t, f16)
KILN_NARROW_FLOAT(bfloat16, uint16_t, bf16)
KILN_NARROW_FLOAT(float8e4m3, uint8_t, fp8e4m3)
KILN_NARROW_FLOAT(float8e5m2, uint8_t, fp8e5m2)
#undef KILN_NARROW_FLOAT

/// What two numbers of which one is of a narrow float give, if it is that: one of the same type or an integer is the
/// other.
template <typename A, typename B>
struct NarrowResult {};
template <typename T>
  requires(NumberTraits<T>::kIsNarrowFloat)
struct NarrowResult<T, T> {
  using type = T;
};
template <typename T, Integer I>
  requires(NumberTraits<T>::kIsNarrowFloat)
struct NarrowResult<T, I> {
  using type = T;
};
template <Integer I, typename T>
  requires(NumberTraits<T>::kIsNarrowFloat)
struct NarrowResult<I, T> {
  using type = T;
};
#define KILN_NARROW_OPERATOR(op)                                                    \
  template <typename A, typename B, typename T = typename NarrowResult<A, B>::type> \
  KILN_DEVICE constexpr T operator op(A x, B y) {                                   \
    return T(static_cast<float>(x) op static_cast<float>(y));                       \
  }
KILN_NARROW_OPERATOR(+)
KILN_NARROW_OPERATOR(-)
KILN_NARROW_OPERATOR(*)
KILN_NARROW_OPERATOR(/)
#undef KILN_NARROW_OPERATOR
template <typename T>
  requires(NumberTraits<T>::kIsNarrowFloat)
KILN_DEVICE constexpr T operator-(T x) {
  return T(-static_cast<float>(x));
}

}  // namespace kiln::tl
