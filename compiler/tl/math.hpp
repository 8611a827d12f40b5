#pragma once

#include "compiler/tl/arithmetic.hpp"

namespace kiln::tl {

// Functions of floats; narrow floats run in float and round once. Each takes a tile or a number.

#define KILN_TILE_MATH(name, function)                                                                  \
  template <Operand A>                                                                                  \
  KILN_DEVICE auto name(const A& a) {                                                                   \
    constexpr bool kOfFloats = Floating<typename ElementOf<A>::type>;                                   \
    static_assert(kOfFloats, #name ": of floats, as in Triton; cast<float>(x) makes them of integers"); \
    if constexpr (kOfFloats)                                                                            \
      return map_unary<true>([](auto x) { return scalar::function(x); }, a);                            \
    else                                                                                                \
      return a;                                                                                         \
  }
/// Of float on the GPU, as Triton's: by one instruction, to which subnormal numbers are 0, within 2 units in the last
/// place and as many more as log2(e) * x has lost when it was rounded: 2 + 2 |x|.
KILN_TILE_MATH(exp, exp)
/// Of float on the GPU within 2 units in the last place by one instruction, to which subnormal numbers are 0, as
/// Triton's.
KILN_TILE_MATH(exp2, exp2)
/// Within 2 units in the last place everywhere, subnormal numbers and all.
KILN_TILE_MATH(exp_precise, exp_precise)
KILN_TILE_MATH(exp2_precise, exp2_precise)
KILN_TILE_MATH(expm1, expm1)
KILN_TILE_MATH(log, log)
KILN_TILE_MATH(log2, log2)
KILN_TILE_MATH(log1p, log1p)
/// Of float on the GPU within 2 units in the last place, subnormal numbers being 0, as Triton's.
KILN_TILE_MATH(sqrt, sqrt)
/// Rounded to nearest.
KILN_TILE_MATH(sqrt_rn, sqrt_rn)
KILN_TILE_MATH(rsqrt, rsqrt)
KILN_TILE_MATH(sin, sin)
KILN_TILE_MATH(cos, cos)
KILN_TILE_MATH(tan, tan)
KILN_TILE_MATH(tanh, tanh)
KILN_TILE_MATH(erf, erf)
KILN_TILE_MATH(floor, floor)
KILN_TILE_MATH(ceil, ceil)
KILN_TILE_MATH(trunc, trunc)
/// Half to even, NumPy's round.
KILN_TILE_MATH(round, rint)
#undef KILN_TILE_MATH

#define KILN_TILE_MATH(name, function)                                                                  \
  template <Operand A, Operand B>                                                                       \
  KILN_DEVICE auto name(const A& a, const B& b) {                                                       \
    constexpr bool kOfFloats = Floating<typename BinaryType<true, A, B>::type>;                         \
    static_assert(kOfFloats, #name ": of floats, as in Triton; cast<float>(x) makes them of integers"); \
    if constexpr (kOfFloats)                                                                            \
      return map_binary<true>([](auto x, auto y) { return scalar::function(x, y); }, a, b);             \
    else                                                                                                \
      return a;                                                                                         \
  }
KILN_TILE_MATH(pow, pow)
KILN_TILE_MATH(atan2, atan2)
#undef KILN_TILE_MATH

/// The quotient of floats, rounded to nearest. Operator / is within 2 units in the last place for float on the GPU, as
/// Triton's, and 0 where the divisor is beyond 2^126.
template <Operand A, Operand B>
KILN_DEVICE auto div_rn(const A& a, const B& b) {
  return map_binary<true>([](auto x, auto y) { return divide(x, y); }, a, b);
}

/// 1 / (1 + exp(-x)).
template <Operand A>
KILN_DEVICE auto sigmoid(const A& a) {
  return map_unary<true>([](auto x) { return scalar::quotient(decltype(x)(1), decltype(x)(1) + scalar::exp(-x)); }, a);
}
/// The same of the precise functions.
template <Operand A>
KILN_DEVICE auto sigmoid_precise(const A& a) {
  return map_unary<true>([](auto x) { return decltype(x)(1) / (decltype(x)(1) + scalar::exp_precise(-x)); }, a);
}

/// |x|; the smallest integer stays itself.
template <Operand A>
KILN_DEVICE auto abs(const A& a) {
  return map_unary<true>(
      [](auto x) {
        using T = decltype(x);
        if constexpr (Floating<T>)
          return scalar::fabs(x);
        else if constexpr (NumberTraits<T>::kIsSigned)
          return x < T{0} ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)) : x;
        else
          return x;
      },
      a);
}

template <Operand A>
KILN_DEVICE auto isnan(const A& a) {
  return map_unary<false>([](auto x) { return x != x; }, a);
}
template <Operand A>
KILN_DEVICE auto isinf(const A& a) {
  return map_unary<false>(
      [](auto x) {
        if constexpr (Floating<decltype(x)>)
          return scalar::fabs(x) == static_cast<decltype(x)>(INFINITY);
        else
          return false;
      },
      a);
}

/// What the larger and the smaller of two are where one of them is NaN: NaN (NumPy's rule), or the other.
enum class PropagateNan { none, all };

template <PropagateNan kPropagate = PropagateNan::all, Number T>
KILN_DEVICE T larger_number(T x, T y) {
  if constexpr (is_same<T, float> || is_same<T, double>)
    return kPropagate == PropagateNan::all ? scalar::larger(x, y) : scalar::larger_of_numbers(x, y);
  else if constexpr (Floating<T>)
    return x > y || (kPropagate == PropagateNan::all ? x != x : y != y) ? x : y;
  else
    return x > y ? x : y;
}
template <PropagateNan kPropagate = PropagateNan::all, Number T>
KILN_DEVICE T smaller_number(T x, T y) {
  if constexpr (is_same<T, float> || is_same<T, double>)
    return kPropagate == PropagateNan::all ? scalar::smaller(x, y) : scalar::smaller_of_numbers(x, y);
  else if constexpr (Floating<T>)
    return x < y || (kPropagate == PropagateNan::all ? x != x : y != y) ? x : y;
  else
    return x < y ? x : y;
}

/// Elementwise maximum.
template <PropagateNan kPropagate = PropagateNan::all, Operand A, Operand B>
KILN_DEVICE auto maximum(const A& a, const B& b) {
  return map_binary<true>([](auto x, auto y) { return larger_number<kPropagate>(x, y); }, a, b);
}
/// Elementwise minimum.
template <PropagateNan kPropagate = PropagateNan::all, Operand A, Operand B>
KILN_DEVICE auto minimum(const A& a, const B& b) {
  return map_binary<true>([](auto x, auto y) { return smaller_number<kPropagate>(x, y); }, a, b);
}
/// minimum(maximum(x, low), high): a NaN in x stays, low > high gives high.
template <Operand A, Operand Low, Operand High>
KILN_DEVICE auto clamp(const A& a, const Low& low, const High& high) {
  return minimum(maximum(a, low), high);
}

/// x * y + z rounded once. Floats of one type; shapes broadcast.
template <Floating T, typename SA, typename LA, typename SB, typename LB, typename SC, typename LC>
KILN_DEVICE auto fma(const Tile<T, SA, LA>& a, const Tile<T, SB, LB>& b, const Tile<T, SC, LC>& c) {
  using C = compute_t<T>;
  return map_elementwise([](T x, T y, T z) { return cast<T>(scalar::fma(cast<C>(x), cast<C>(y), cast<C>(z))); }, a, b,
                         c);
}

template <Floating T>
KILN_DEVICE T fma(T x, T y, T z) {
  using C = compute_t<T>;
  return cast<T>(scalar::fma(cast<C>(x), cast<C>(y), cast<C>(z)));
}

/// The upper half of the product of unsigned integers.
template <Operand A, Operand B>
KILN_DEVICE auto umulhi(const A& a, const B& b) {
  return map_binary<true>([](auto x, auto y) { return scalar::umulhi(x, y); }, a, b);
}

}  // namespace kiln::tl
