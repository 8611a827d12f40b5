#pragma once

#include "compiler/tl/cpu/float_layout.hpp"
#include "compiler/tl/cpu/polynomial.hpp"
#include "compiler/tl/cpu/vector_bytes.hpp"
#include "compiler/tl/target.hpp"

namespace kiln::tl::scalar {

// exp, exp2 and expm1 of float and double without a branch or a call, so that they become a vector's instructions
// wherever they stand. libmvec's functions, which they replace, call the C library for each number of a vector of which
// one is infinite, NaN, or has a subnormal result: softmax of rows with -inf in them and of masked tiles took ten times
// as long, and so did sigmoid beyond 88.
//
// x is n + r (but for exp2 n * log(2) + r) with a whole n and |r| of at most a half (half of log(2)); a polynomial that
// is the best for that interval (found by Remez' exchange) times 2^n, in two factors since 2^n alone may be subnormal
// or infinite. Errors are below 1.2 units in the last place, of subnormal results too; of expm1, where a number a third
// as large is left of a difference, below 2.

template <typename T>
struct ExponentOf;
template <>
struct ExponentOf<float> {
  /// Adding it leaves a number rounded to a whole one in the lowest bits.
  static constexpr float kRounding = 0x1.8p23f;
  /// Results are 0 below, and infinite above, of exp2 and of exp.
  static constexpr float kLowest2 = -151, kHighest2 = 129, kLowest = -104, kHighest = 89;
  static constexpr float kExp2[] = {0.693147188033428134f,   0.240226510844458981f,   0.0555035708395853108f,
                                    0.00961803073135338902f, 0.00133908783444028708f, 0.000154697484233332029f};
  static constexpr float kExp[] = {0.500000002695054075f, 0.16666576970040478f, 0.0416663751323244767f,
                                   0.00836318123454359428f, 0.00139411241274792929f};
};
template <>
struct ExponentOf<double> {
  static constexpr double kRounding = 0x1.8p52;
  static constexpr double kLowest2 = -1076, kHighest2 = 1025, kLowest = -746, kHighest = 710;
  static constexpr double kExp2[] = {0.693147180559945309,     0.240226506959100712,    0.0555041086648216271,
                                     0.00961812910762848663,   0.00133335581464064519,  0.000154035303933547487,
                                     0.0000152527338415806589, 1.32154868233210437e-6,  1.01780570755245333e-7,
                                     7.0548914576626874e-9,    4.45582006832080242e-10, 2.57378285492721388e-11};
  static constexpr double kExp[] = {0.5,
                                    0.16666666666666671,
                                    0.0416666666666666838,
                                    0.00833333333332613467,
                                    0.00138888888888743952,
                                    0.000198412698748219582,
                                    0.0000248015873473467833,
                                    2.75572553987419484e-6,
                                    2.75572529059975722e-7,
                                    2.51052175433508406e-8,
                                    2.09215913555580585e-9};
};

/// x, or the nearer end of the interval where it is outside; NaN stays NaN.
template <typename T>
KILN_DEVICE T within(T x, T lowest, T highest) {
  const T raised = x < lowest ? lowest : x;
  return raised > highest ? highest : raised;
}

/// x times 2^n, where `shifted` is n + kRounding.
template <typename T>
KILN_DEVICE T times_power_of_two(T x, T shifted) {
  using L = FloatLayout<T>;
  using Bits = typename L::Bits;
  // Exponents as they are stored, of both factors together; never negative, for AVX2 lacks that shift of 64 bits.
  const Bits both =
      __builtin_bit_cast(Bits, shifted) - __builtin_bit_cast(Bits, ExponentOf<T>::kRounding) + 2 * L::kBias;
  const Bits half = both >> 1;
  return x * __builtin_bit_cast(T, half << L::kMantissaBits) * __builtin_bit_cast(T, (both - half) << L::kMantissaBits);
}

template <typename T>
KILN_DEVICE T exp2_of(T number) {
#pragma clang fp contract(fast)
  using E = ExponentOf<T>;
  const T x = within(number, E::kLowest2, E::kHighest2);
  const T shifted = x + E::kRounding;
  const T r = x - (shifted - E::kRounding);
  return times_power_of_two(polynomial(E::kExp2, r) * r + T{1}, shifted);
}
/// exp(r) - 1, and n + kRounding.
template <typename T>
struct ExponentialParts {
  T above_one, shifted;
};
template <typename T>
KILN_DEVICE ExponentialParts<T> exponential_parts(T x) {
#pragma clang fp contract(fast)
  using E = ExponentOf<T>;
  constexpr T kLog2E = static_cast<T>(1.4426950408889634);
  const T shifted = x * kLog2E + E::kRounding;
  const T n = shifted - E::kRounding;
  const T r = (x - n * FloatLayout<T>::kLn2High) - n * FloatLayout<T>::kLn2Low;
  return {polynomial(E::kExp, r) * (r * r) + r, shifted};
}
template <typename T>
KILN_DEVICE T exp_of(T number) {
  using E = ExponentOf<T>;
  const auto [above_one, shifted] = exponential_parts(within(number, E::kLowest, E::kHighest));
  return times_power_of_two(above_one + T{1}, shifted);
}
/// By half of 2^n, which is finite where the result is.
template <typename T>
KILN_DEVICE T expm1_of(T number) {
#pragma clang fp contract(fast)
  using L = FloatLayout<T>;
  using E = ExponentOf<T>;
  constexpr T kMinusOne = T{-40};  // what the result rounds to from there on
  const auto [above_one, shifted] = exponential_parts(within(number, kMinusOne, E::kHighest));
  const auto exponent = __builtin_bit_cast(typename L::Bits, shifted) -
                        __builtin_bit_cast(typename L::Bits, E::kRounding) + (L::kBias - 1);
  const T half = __builtin_bit_cast(T, exponent << L::kMantissaBits);
  const T result = T{2} * (half * above_one + (half - T{0.5}));
  return number == T{0} ? number : result;  // -0 too
}

KILN_DEVICE float exp(float x) {
  return exp_of(x);
}
KILN_DEVICE double exp(double x) {
  return exp_of(x);
}
KILN_DEVICE float expm1(float x) {
  return expm1_of(x);
}
/// AVX2 loads each of its constants again for each vector of four, and takes half as long again as libmvec.
KILN_DEVICE double expm1(double x) {
  return kiln_vector_bytes == 64 ? expm1_of(x) : __builtin_expm1(x);
}
KILN_DEVICE float exp2(float x) {
  return exp2_of(x);
}
KILN_DEVICE double exp2(double x) {
  return exp2_of(x);
}

}  // namespace kiln::tl::scalar
