#pragma once

#include "compiler/tl/math.hpp"
#include "ops/common/functors_gelu.hpp"
#include "ops/elementwise/iteration.hpp"

// One functor per op: apply<Compute>(scalars, inputs...) over tiles of Compute. What differs between ops is here, and
// only here.

namespace kiln::ops {

/// Scalar attribute `slot` in the compute type.
template <typename Compute>
KILN_DEVICE Compute scalar(const Scalars& scalars, int slot) {
  if constexpr (tl::NumberTraits<Compute>::kIsFloating)
    return static_cast<Compute>(scalars.f[slot]);
  else
    return static_cast<Compute>(scalars.i[slot]);
}

inline constexpr int kFirstScalar = 0, kSecondScalar = 1, kOtherScalar = 3;

/// A binary functor whose second operand is the attribute `other`.
template <typename Functor>
struct ScalarRight {
  template <typename Compute>
  KILN_DEVICE static auto apply(const Scalars& scalars, const auto& x) {
    const auto y = tl::map_elementwise([&](auto) { return scalar<Compute>(scalars, kOtherScalar); }, x);
    return Functor::template apply<Compute>(scalars, x, y);
  }
};

#define KILN_UNARY_FUNCTOR(Name, expression)                               \
  struct Name {                                                            \
    template <typename Compute>                                            \
    KILN_DEVICE static auto apply(const Scalars& scalars, const auto& x) { \
      (void)scalars;                                                       \
      return expression;                                                   \
    }                                                                      \
  };
#define KILN_BINARY_FUNCTOR(Name, expression)                                             \
  struct Name {                                                                           \
    template <typename Compute>                                                           \
    KILN_DEVICE static auto apply(const Scalars& scalars, const auto& x, const auto& y) { \
      (void)scalars;                                                                      \
      return expression;                                                                  \
    }                                                                                     \
  };
#define KILN_TERNARY_FUNCTOR(Name, expression)                                                           \
  struct Name {                                                                                          \
    template <typename Compute>                                                                          \
    KILN_DEVICE static auto apply(const Scalars& scalars, const auto& x, const auto& y, const auto& z) { \
      (void)scalars;                                                                                     \
      return expression;                                                                                 \
    }                                                                                                    \
  };

// NumPy's floor division and remainder: the remainder has the divisor's sign. Floats follow npy_divmod: fmod, then one
// correction, so that a tiny quotient does not lose its remainder.
template <typename T>
KILN_DEVICE T floor_remainder(T x, T y) {
  if constexpr (tl::NumberTraits<T>::kIsFloating) {
    const T remainder = tl::scalar::fmod(x, y);
    if (remainder == T(0)) return tl::scalar::copysign(T(0), y);
    return (y < T(0)) != (remainder < T(0)) ? remainder + y : remainder;
  } else {
    const T remainder = tl::modulo(x, y);
    return remainder != T(0) && (remainder < T(0)) != (y < T(0)) ? static_cast<T>(remainder + y) : remainder;
  }
}

template <typename T>
KILN_DEVICE T floor_quotient(T x, T y) {
  if constexpr (tl::NumberTraits<T>::kIsFloating) {
    if (y == T(0)) return x / y;
    const T remainder = tl::scalar::fmod(x, y);
    // The correction comes after the division: by way of the corrected remainder an infinite divisor would give NaN.
    const T down = remainder != T(0) && (y < T(0)) != (remainder < T(0)) ? T(1) : T(0);
    const T quotient = (x - remainder) / y - down;
    if (quotient == T(0)) return tl::scalar::copysign(T(0), x / y);
    const T floored = tl::scalar::floor(quotient);
    return quotient - floored > T(0.5) ? floored + T(1) : floored;
  } else {
    const T quotient = tl::divide(x, y), remainder = tl::modulo(x, y);
    return remainder != T(0) && (remainder < T(0)) != (y < T(0)) ? static_cast<T>(quotient - T(1)) : quotient;
  }
}

/// Integers by squaring, wrapping; a negative exponent gives the truncated quotient: 0, except for bases 1 and -1.
template <typename T>
KILN_DEVICE T power(T base, T exponent) {
  if constexpr (tl::NumberTraits<T>::kIsFloating) {
    return tl::scalar::pow(base, exponent);
  } else {
    if constexpr (tl::NumberTraits<T>::kIsSigned) {
      if (exponent < T(0)) {
        if (base == T(-1)) return (exponent & T(1)) != 0 ? T(-1) : T(1);
        return base == T(1) ? T(1) : T(0);
      }
    }
    tl::uint64_t result = 1, square = static_cast<tl::uint64_t>(base);
    for (tl::uint64_t rest = static_cast<tl::uint64_t>(exponent); rest != 0; rest >>= 1) {
      if (rest & 1) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
}

template <typename T>
KILN_DEVICE T sign_of(T x) {
  if constexpr (tl::NumberTraits<T>::kIsFloating)
    return x != x ? x : static_cast<T>(x > T(0)) - static_cast<T>(x < T(0));  // 0 for -0, as in NumPy
  else if constexpr (tl::NumberTraits<T>::kIsSigned)
    return static_cast<T>((x > T(0)) - (x < T(0)));
  else
    return static_cast<T>(x != T(0));
}

/// x * y + z, rounded once for floats: the same bits on both targets, whatever the compilers fuse by themselves.
template <typename X, typename Y, typename Z>
KILN_DEVICE auto multiply_add(const X& x, const Y& y, const Z& z) {
  using T = typename Z::value_type;
  return tl::map_elementwise(
      [](T a, T b, T c) {
        if constexpr (tl::NumberTraits<T>::kIsFloating)
          return tl::scalar::fma(a, b, c);
        else
          return tl::wrapping(tl::wrapping(a, b, [](auto u, auto v) { return u * v; }), c,
                              [](auto u, auto v) { return u + v; });
      },
      x, y, z);
}

KILN_BINARY_FUNCTOR(Add, x + y)
KILN_BINARY_FUNCTOR(AddAlpha, multiply_add(scalar<Compute>(scalars, kFirstScalar), y, x))
KILN_BINARY_FUNCTOR(Sub, x - y)
KILN_BINARY_FUNCTOR(SubAlpha, multiply_add(scalar<Compute>(scalars, kFirstScalar), -y, x))
KILN_BINARY_FUNCTOR(Mul, x* y)
KILN_BINARY_FUNCTOR(Div, tl::div_rn(x, y))
KILN_BINARY_FUNCTOR(FloorDiv, tl::map_elementwise([](Compute a, Compute b) { return floor_quotient(a, b); }, x, y))
KILN_BINARY_FUNCTOR(Remainder, tl::map_elementwise([](Compute a, Compute b) { return floor_remainder(a, b); }, x, y))
KILN_BINARY_FUNCTOR(Pow, tl::map_elementwise([](Compute a, Compute b) { return power(a, b); }, x, y))
KILN_BINARY_FUNCTOR(Maximum, tl::maximum(x, y))
KILN_BINARY_FUNCTOR(Minimum, tl::minimum(x, y))
KILN_BINARY_FUNCTOR(Atan2, tl::atan2(x, y))

KILN_BINARY_FUNCTOR(Eq, x == y)
KILN_BINARY_FUNCTOR(Ne, x != y)
KILN_BINARY_FUNCTOR(Lt, x < y)
KILN_BINARY_FUNCTOR(Le, x <= y)
KILN_BINARY_FUNCTOR(Gt, x > y)
KILN_BINARY_FUNCTOR(Ge, x >= y)

KILN_BINARY_FUNCTOR(LogicalAnd, (x != Compute(0)) & (y != Compute(0)))
KILN_BINARY_FUNCTOR(LogicalOr, (x != Compute(0)) | (y != Compute(0)))
KILN_BINARY_FUNCTOR(LogicalXor, (x != Compute(0)) ^ (y != Compute(0)))
KILN_UNARY_FUNCTOR(LogicalNot, x == Compute(0))

KILN_BINARY_FUNCTOR(BitwiseAnd, x& y)
KILN_BINARY_FUNCTOR(BitwiseOr, x | y)
KILN_BINARY_FUNCTOR(BitwiseXor, x ^ y)
KILN_UNARY_FUNCTOR(BitwiseNot, ~x)
KILN_BINARY_FUNCTOR(BitwiseLeftShift, x << y)
KILN_BINARY_FUNCTOR(BitwiseRightShift, x >> y)

KILN_UNARY_FUNCTOR(Neg, -x)
KILN_UNARY_FUNCTOR(Abs, tl::abs(x))
KILN_UNARY_FUNCTOR(Sign, tl::map_elementwise([](Compute a) { return sign_of(a); }, x))
KILN_UNARY_FUNCTOR(Exp, tl::exp_precise(x))
KILN_UNARY_FUNCTOR(Exp2, tl::exp2_precise(x))
KILN_UNARY_FUNCTOR(Expm1, tl::expm1(x))
KILN_UNARY_FUNCTOR(Log, tl::log(x))
KILN_UNARY_FUNCTOR(Log2, tl::log2(x))
KILN_UNARY_FUNCTOR(Log1p, tl::log1p(x))
KILN_UNARY_FUNCTOR(Sqrt, tl::sqrt_rn(x))
KILN_UNARY_FUNCTOR(Rsqrt, tl::rsqrt(x))
KILN_UNARY_FUNCTOR(Reciprocal, tl::div_rn(Compute(1), x))
KILN_UNARY_FUNCTOR(Sin, tl::sin(x))
KILN_UNARY_FUNCTOR(Cos, tl::cos(x))
KILN_UNARY_FUNCTOR(Tan, tl::tan(x))
KILN_UNARY_FUNCTOR(Tanh, tl::tanh(x))
KILN_UNARY_FUNCTOR(Erf, tl::erf(x))
KILN_UNARY_FUNCTOR(Sigmoid, tl::sigmoid_precise(x))
KILN_UNARY_FUNCTOR(Relu, tl::maximum(x, Compute(0)))
/// x * Phi(x) with the error function; Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
KILN_UNARY_FUNCTOR(Gelu, x* Compute(0.5) * (Compute(1) + tl::erf(x * Compute(0.70710678118654752440))))
#if defined(KILN_TARGET_CUDA)
/// Of results of 16 bits or fewer.
struct GeluNarrow {
  template <typename Compute>
  KILN_DEVICE static auto apply(const Scalars&, const auto& x) {
    return tl::map_elementwise([](Compute a) { return gelu_narrow(a); }, x);
  }
};
#endif
/// The same paper's tanh approximation.
KILN_UNARY_FUNCTOR(GeluTanh, x* Compute(0.5) * (Compute(1) + tl::tanh(Compute(0.79788456080286535588) *
                                                                      (x + Compute(0.044715) * x * x * x))))
KILN_UNARY_FUNCTOR(Silu, tl::div_rn(x, Compute(1) + tl::exp_precise(-x)))
KILN_UNARY_FUNCTOR(LeakyRelu, tl::where(x > Compute(0), x, x* scalar<Compute>(scalars, kFirstScalar)))
KILN_UNARY_FUNCTOR(Elu, tl::where(x > Compute(0), x, tl::expm1(x) * scalar<Compute>(scalars, kFirstScalar)))
KILN_UNARY_FUNCTOR(Floor, tl::floor(x))
KILN_UNARY_FUNCTOR(Ceil, tl::ceil(x))
KILN_UNARY_FUNCTOR(Round, tl::round(x))
KILN_UNARY_FUNCTOR(Trunc, tl::trunc(x))
KILN_UNARY_FUNCTOR(IsNan, tl::isnan(x))
KILN_UNARY_FUNCTOR(IsInf, tl::isinf(x))
KILN_UNARY_FUNCTOR(Clamp, tl::clamp(x, scalar<Compute>(scalars, kFirstScalar), scalar<Compute>(scalars, kSecondScalar)))
KILN_UNARY_FUNCTOR(ClampMin, tl::maximum(x, scalar<Compute>(scalars, kFirstScalar)))
KILN_UNARY_FUNCTOR(ClampMax, tl::minimum(x, scalar<Compute>(scalars, kSecondScalar)))
KILN_UNARY_FUNCTOR(Cast, x)

// An infinite difference is never within the tolerance, even where the tolerance is infinite.
KILN_BINARY_FUNCTOR(IsClose, (x == y) | ((tl::abs(x - y) < static_cast<Compute>(INFINITY)) &
                                         (tl::abs(x - y) <= scalar<Compute>(scalars, kSecondScalar) +
                                                                scalar<Compute>(scalars, kFirstScalar) * tl::abs(y))))
KILN_BINARY_FUNCTOR(IsCloseEqualNan, IsClose::template apply<Compute>(scalars, x, y) | (tl::isnan(x) & tl::isnan(y)))
KILN_TERNARY_FUNCTOR(Where, tl::where(x != Compute(0), y, z))
KILN_BINARY_FUNCTOR(AddRelu, tl::maximum(x + y, Compute(0)))
KILN_TERNARY_FUNCTOR(MulAdd, multiply_add(x, y, z))
KILN_BINARY_FUNCTOR(Axpby, multiply_add(scalar<Compute>(scalars, kFirstScalar), x,
                                        scalar<Compute>(scalars, kSecondScalar) * y))

template <typename Functor, typename... Others>
inline constexpr bool is_one_of = (tl::is_same<Functor, Others> || ...);
/// Whether one element is much code, so that code which seldom runs is better not unrolled.
template <typename Functor>
inline constexpr bool is_long = is_one_of<Functor, FloorDiv, Remainder, Pow, Atan2, Sin, Cos, Tan, Erf, Gelu, GeluTanh>;
template <typename Functor>
inline constexpr bool is_long<ScalarRight<Functor>> = is_long<Functor>;

/// The attribute `value` everywhere; no inputs.
struct Fill {
  template <typename Compute>
  KILN_DEVICE static Compute apply(const Scalars& scalars) {
    return scalar<Compute>(scalars, kFirstScalar);
  }
};

#undef KILN_UNARY_FUNCTOR
#undef KILN_BINARY_FUNCTOR
#undef KILN_TERNARY_FUNCTOR

}  // namespace kiln::ops
