#pragma once

#include "compiler/tl/cpu/float_layout.hpp"
#include "compiler/tl/cpu/polynomial.hpp"
#include "compiler/tl/cpu/vector_bytes.hpp"
#include "compiler/tl/target.hpp"

namespace kiln::tl::scalar {

// log and log2 of float and double, and log1p of float, without a branch or a call where registers are of 64 bytes, for
// the reasons of exponential.hpp: libmvec's call the C library for each number of a vector of which one is 0, negative,
// infinite, NaN or subnormal.
//
// x is m * 2^n with m between sqrt(1/2) and sqrt(2), and f = m - 1. log(1 + f) is f and what is left of it: of floats
// f^2 times a polynomial, of doubles fdlibm's form with s = f / (2 + f), f^2 / 2 subtracted and s times (f^2 / 2 and an
// even polynomial of s) added, which takes half the coefficients for a division. Polynomials are the best for the
// interval (found by Remez' exchange). Errors are below 1.3 units in the last place.

template <typename T>
struct LogarithmOf;
template <>
struct LogarithmOf<float> {
  /// 1 / log(2), in two parts.
  static constexpr float kLog2EHigh = 0x1.715476p+0f, kLog2ELow = 0x1.4ae0cp-26f;
  static constexpr float kCoefficients[] = {-0.5f,
                                            0.33333331707889027f,
                                            -0.250008210318037672f,
                                            0.200012268641048206f,
                                            -0.166233574117869558f,
                                            0.14201758277894819f,
                                            -0.131601821119846666f,
                                            0.127615751868704323f,
                                            -0.0763449489046288709f};
  /// log(1 + f) - f.
  KILN_DEVICE static float rest(float f) { return polynomial(kCoefficients, f) * (f * f); }
};
template <>
struct LogarithmOf<double> {
  static constexpr double kLog2EHigh = 0x1.71547652b82fep+0, kLog2ELow = 0x1.777d0ffda0d24p-56;
  static constexpr double kCoefficients[] = {0.666666666666673441285, 0.399999999994146751899, 0.285714287423882070249,
                                             0.222221985731325445082, 0.181835643285325948684, 0.153140504957868972589,
                                             0.147959502229488096008};
  KILN_DEVICE static double rest(double f) {
#pragma clang fp contract(fast)
    const double half_square = 0.5 * f * f;
    const double s = f / (2.0 + f), square = s * s;
    return s * (half_square + polynomial(kCoefficients, square) * square) - half_square;
  }
};

/// A number's parts: x is (1 + fraction) * 2^exponent, and 2^-exponent, or 0 where that is subnormal.
template <typename T>
struct LogarithmParts {
  T fraction, exponent, scale;
};
template <typename T>
KILN_DEVICE LogarithmParts<T> logarithm_parts(T x) {
  using L = FloatLayout<T>;
  using Bits = typename L::Bits;
  constexpr Bits kOne = static_cast<Bits>(L::kBias) << L::kMantissaBits;
  constexpr Bits kMantissa = (Bits{1} << L::kMantissaBits) - 1;
  constexpr Bits kRootOfHalf = __builtin_bit_cast(Bits, static_cast<T>(0.70710678118654752440));
  /// 2^kMantissaBits: in its lowest bits whole numbers stand, and times it subnormal numbers are normal.
  constexpr T kWhole = static_cast<T>(Bits{1} << L::kMantissaBits);
  const bool is_subnormal = x < L::kSmallestNormal;
  const T normal = is_subnormal ? x * kWhole : x;
  const T raised_by = is_subnormal ? T{L::kMantissaBits} : T{0};
  const Bits moved = __builtin_bit_cast(Bits, normal) + (kOne - kRootOfHalf);
  const Bits exponent = moved >> L::kMantissaBits;
  const T biased = __builtin_bit_cast(T, exponent | __builtin_bit_cast(Bits, kWhole));
  const T significand = __builtin_bit_cast(T, (moved & kMantissa) + kRootOfHalf);
  const Bits scale = exponent < 2 * L::kBias ? (2 * L::kBias - exponent) << L::kMantissaBits : 0;
  return {significand - T{1}, (biased - (kWhole + T{L::kBias})) - raised_by, __builtin_bit_cast(T, scale)};
}

/// `logarithm`, or what it is for numbers that have none.
template <typename T>
KILN_DEVICE T logarithm_or_limit(T x, T logarithm) {
  constexpr T kInfinity = static_cast<T>(__builtin_inf()), kNan = static_cast<T>(__builtin_nan(""));
  const T finite_or_not = x == kInfinity ? x : logarithm;
  return x > T{0} ? finite_or_not : (x == T{0} ? -kInfinity : kNan);
}

template <typename T>
KILN_DEVICE T log_of(T x) {
#pragma clang fp contract(fast)
  using L = FloatLayout<T>;
  const auto [f, n, _] = logarithm_parts(x);
  return logarithm_or_limit(x, n * L::kLn2High + (f + (LogarithmOf<T>::rest(f) + n * L::kLn2Low)));
}
template <typename T>
KILN_DEVICE T log2_of(T x) {
#pragma clang fp contract(fast)
  using L = LogarithmOf<T>;
  const auto [f, n, _] = logarithm_parts(x);
  return logarithm_or_limit(x, n + (f * L::kLog2EHigh + (L::rest(f) * L::kLog2EHigh + f * L::kLog2ELow)));
}

/// 1 + x, rounded, and what that left out (Knuth's sum of two numbers).
template <typename T>
struct OnePlus {
  T sum, rest;
};
template <typename T>
KILN_DEVICE OnePlus<T> one_plus(T x) {
  const T sum = T{1} + x, added = sum - T{1};
  return {sum, (T{1} - (sum - added)) + (x - added)};
}
/// log of the rounded sum, and what was left out over it, as much as the logarithm grows by it: times 1 - f + f^2,
/// which is exact enough, since f is small wherever what was left out counts for more than its first bits.
template <typename T>
KILN_DEVICE T log1p_of(T x) {
#pragma clang fp contract(fast)
  using L = FloatLayout<T>;
  const auto [sum, left_out] = one_plus(x);
  const auto [f, n, scale] = logarithm_parts(sum);
  const T growth = (left_out * scale) * (f * (f - T{1}) + T{1});
  const T logarithm = n * L::kLn2High + (f + (LogarithmOf<T>::rest(f) + (n * L::kLn2Low + growth)));
  return x == T{0} ? x : logarithm_or_limit(sum, logarithm);  // -0 too
}

/// With AVX-512 alone: AVX2 loads each of twenty constants again for each vector, which takes twice as long as libmvec
/// where no number is special.
KILN_DEVICE bool serves_logarithms() {
  return kiln_vector_bytes == 64;
}

KILN_DEVICE float log(float x) {
  return serves_logarithms() ? log_of(x) : __builtin_logf(x);
}
KILN_DEVICE double log(double x) {
  return serves_logarithms() ? log_of(x) : __builtin_log(x);
}
KILN_DEVICE float log1p(float x) {
  return serves_logarithms() ? log1p_of(x) : __builtin_log1pf(x);
}
/// libmvec's: ours took 7% longer, and as long where numbers are special.
KILN_DEVICE double log1p(double x) {
  return __builtin_log1p(x);
}
KILN_DEVICE float log2(float x) {
  return serves_logarithms() ? log2_of(x) : __builtin_log2f(x);
}
KILN_DEVICE double log2(double x) {
  return serves_logarithms() ? log2_of(x) : __builtin_log2(x);
}

}  // namespace kiln::tl::scalar
