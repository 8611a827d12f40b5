#pragma once

#include "compiler/tl/cpu/exponential.hpp"
#include "compiler/tl/cpu/logarithm.hpp"
#include "compiler/tl/target.hpp"

// The math functions of one number, float and double: exp, exp2 and expm1 are exponential.hpp's, log, log2 and log1p
// logarithm.hpp's. The builtins become instructions or libm calls, which the compiler's vector library turns into calls
// for whole vectors.

namespace kiln::tl::scalar {

#define KILN_SCALAR_MATH(name)        \
  KILN_DEVICE float name(float x) {   \
    return __builtin_##name##f(x);    \
  }                                   \
  KILN_DEVICE double name(double x) { \
    return __builtin_##name(x);       \
  }
KILN_SCALAR_MATH(sqrt)
KILN_SCALAR_MATH(sin)
KILN_SCALAR_MATH(cos)
KILN_SCALAR_MATH(tan)
KILN_SCALAR_MATH(tanh)
KILN_SCALAR_MATH(erf)
KILN_SCALAR_MATH(fabs)
KILN_SCALAR_MATH(floor)
KILN_SCALAR_MATH(ceil)
KILN_SCALAR_MATH(trunc)
KILN_SCALAR_MATH(rint)
#undef KILN_SCALAR_MATH

KILN_DEVICE float rsqrt(float x) {
  return 1.0f / sqrt(x);
}
KILN_DEVICE double rsqrt(double x) {
  return 1.0 / sqrt(x);
}

#define KILN_SCALAR_MATH(name)                  \
  KILN_DEVICE float name(float x, float y) {    \
    return __builtin_##name##f(x, y);           \
  }                                             \
  KILN_DEVICE double name(double x, double y) { \
    return __builtin_##name(x, y);              \
  }
KILN_SCALAR_MATH(pow)
KILN_SCALAR_MATH(atan2)
KILN_SCALAR_MATH(fmod)
KILN_SCALAR_MATH(copysign)
#undef KILN_SCALAR_MATH

KILN_DEVICE float fma(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
KILN_DEVICE double fma(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}

KILN_DEVICE uint32_t umulhi(uint32_t x, uint32_t y) {
  return static_cast<uint32_t>((static_cast<uint64_t>(x) * y) >> 32);
}
KILN_DEVICE uint64_t umulhi(uint64_t x, uint64_t y) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(x) * y) >> 64);
}

// Names that differ on GPUs alone.
template <typename T>
KILN_DEVICE T exp2_precise(T x) {
  return exp2(x);
}
template <typename T>
KILN_DEVICE T exp_precise(T x) {
  return exp(x);
}
template <typename T>
KILN_DEVICE T sqrt_rn(T x) {
  return sqrt(x);
}
template <typename T>
KILN_DEVICE T quotient(T x, T y) {
  return x / y;
}

// The processor's own maximum and minimum are y where one of the two is NaN, so that one number need be looked at. NaN
// is x + x, for LLVM makes one choice of two that both may be x, without those instructions.
template <typename T>
KILN_DEVICE T larger(T x, T y) {
  const T most = x > y ? x : y;
  return x != x ? x + x : most;
}
template <typename T>
KILN_DEVICE T smaller(T x, T y) {
  const T least = x < y ? x : y;
  return x != x ? x + x : least;
}
template <typename T>
KILN_DEVICE T larger_of_numbers(T x, T y) {
  return x > y || y != y ? x : y;
}
template <typename T>
KILN_DEVICE T smaller_of_numbers(T x, T y) {
  return x < y || y != y ? x : y;
}

}  // namespace kiln::tl::scalar
