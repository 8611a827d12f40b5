#pragma once

#include "compiler/tl/target.hpp"

// The math functions of one number, float and double. NVRTC declares CUDA's own without a header. Those of float that
// are an instruction or two for less accuracy are the plain names, as in Triton; the accurate ones are named so.

namespace kiln::tl::scalar {

#define KILN_SCALAR_MATH(name)        \
  KILN_DEVICE float name(float x) {   \
    return ::name##f(x);              \
  }                                   \
  KILN_DEVICE double name(double x) { \
    return ::name(x);                 \
  }
KILN_SCALAR_MATH(expm1)
KILN_SCALAR_MATH(log)
KILN_SCALAR_MATH(log2)
KILN_SCALAR_MATH(log1p)
KILN_SCALAR_MATH(rsqrt)
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

#define KILN_SCALAR_MATH(name)                  \
  KILN_DEVICE float name(float x, float y) {    \
    return ::name##f(x, y);                     \
  }                                             \
  KILN_DEVICE double name(double x, double y) { \
    return ::name(x, y);                        \
  }
KILN_SCALAR_MATH(pow)
KILN_SCALAR_MATH(atan2)
KILN_SCALAR_MATH(fmod)
KILN_SCALAR_MATH(copysign)
#undef KILN_SCALAR_MATH

/// 2^x and 1/x by one instruction each, within 2 and 1 units in the last place; subnormal numbers count as 0.
KILN_DEVICE float exp2_approximate(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
KILN_DEVICE float exp2(float x) {
  return exp2_approximate(x);
}
KILN_DEVICE double exp2(double x) {
  return ::exp2(x);
}
KILN_DEVICE float exp2_precise(float x) {
  return ::exp2f(x);
}
KILN_DEVICE double exp2_precise(double x) {
  return ::exp2(x);
}
KILN_DEVICE float reciprocal_approximate(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
KILN_DEVICE float exp(float x) {
  return exp2_approximate(x * 1.4426950408889634f);
}
KILN_DEVICE double exp(double x) {
  return ::exp(x);
}
KILN_DEVICE float exp_precise(float x) {
  return ::expf(x);
}
KILN_DEVICE double exp_precise(double x) {
  return ::exp(x);
}
KILN_DEVICE float sqrt(float x) {
  float result;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
KILN_DEVICE double sqrt(double x) {
  return ::sqrt(x);
}
KILN_DEVICE float sqrt_rn(float x) {
  return ::sqrtf(x);
}
KILN_DEVICE double sqrt_rn(double x) {
  return ::sqrt(x);
}
/// 0 or NaN where y is beyond 2^126.
KILN_DEVICE float quotient(float x, float y) {
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}
KILN_DEVICE double quotient(double x, double y) {
  return x / y;
}

/// The larger and the smaller of two, NaN if either is; one instruction for float.
KILN_DEVICE float larger(float x, float y) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}
KILN_DEVICE float smaller(float x, float y) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}

KILN_DEVICE double larger(double x, double y) {
  return x > y || x != x ? x : y;
}
KILN_DEVICE double smaller(double x, double y) {
  return x < y || x != x ? x : y;
}

/// The same, the number where one is NaN.
KILN_DEVICE float larger_of_numbers(float x, float y) {
  return ::fmaxf(x, y);
}
KILN_DEVICE float smaller_of_numbers(float x, float y) {
  return ::fminf(x, y);
}
KILN_DEVICE double larger_of_numbers(double x, double y) {
  return x > y || y != y ? x : y;
}
KILN_DEVICE double smaller_of_numbers(double x, double y) {
  return x < y || y != y ? x : y;
}

KILN_DEVICE float fma(float x, float y, float z) {
  return ::fmaf(x, y, z);
}
KILN_DEVICE double fma(double x, double y, double z) {
  return ::fma(x, y, z);
}

KILN_DEVICE uint32_t umulhi(uint32_t x, uint32_t y) {
  return ::__umulhi(x, y);
}
KILN_DEVICE uint64_t umulhi(uint64_t x, uint64_t y) {
  return ::__umul64hi(x, y);
}

}  // namespace kiln::tl::scalar
