#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/elementwise/iteration.hpp"

namespace kiln::elementwise {

/// What a reference function may look at besides its operands.
struct ReferenceArguments {
  ops::Scalars scalars{};
  int width_bits = 64;  ///< of the compute dtype; 1 for bool

  template <typename T>
  T scalar(int slot) const {
    if constexpr (std::is_floating_point_v<T>)
      return scalars.f[slot];
    else
      return static_cast<T>(scalars.i[slot]);
  }
};

/// An op on one element: double where the compute dtype is floating; int64_t or uint64_t where it is signed, unsigned
/// or bool. nullptr where the op has no such form.
struct ReferenceFunctions {
  double (*floating)(const double*, const ReferenceArguments&) = nullptr;
  std::int64_t (*signed_integer)(const std::int64_t*, const ReferenceArguments&) = nullptr;
  std::uint64_t (*unsigned_integer)(const std::uint64_t*, const ReferenceArguments&) = nullptr;
};

template <int kArity, typename Function, typename T>
T call_reference(const T* in, const ReferenceArguments& arguments) {
  const Function function{};
  if constexpr (kArity == 1) {
    if constexpr (std::is_invocable_v<Function, T, const ReferenceArguments&>)
      return static_cast<T>(function(in[0], arguments));
    else
      return static_cast<T>(function(in[0]));
  } else if constexpr (kArity == 2) {
    if constexpr (std::is_invocable_v<Function, T, T, const ReferenceArguments&>)
      return static_cast<T>(function(in[0], in[1], arguments));
    else
      return static_cast<T>(function(in[0], in[1]));
  } else {
    return static_cast<T>(function(in[0], in[1], in[2]));
  }
}

/// For a captureless generic lambda over 1 to 3 operands, optionally followed by the ReferenceArguments.
template <int kArity, typename Function>
constexpr ReferenceFunctions reference(Function) {
  return {&call_reference<kArity, Function, double>, &call_reference<kArity, Function, std::int64_t>,
          &call_reference<kArity, Function, std::uint64_t>};
}
/// For functions of floats alone.
template <int kArity, typename Function>
constexpr ReferenceFunctions float_reference(Function) {
  return {&call_reference<kArity, Function, double>, nullptr, nullptr};
}
/// For functions of integers and bools alone.
template <int kArity, typename Function>
constexpr ReferenceFunctions integer_reference(Function) {
  return {nullptr, &call_reference<kArity, Function, std::int64_t>, &call_reference<kArity, Function, std::uint64_t>};
}

// Integers wrap: the arithmetic is done unsigned, since overflow of int64_t is undefined.

template <typename T>
T plus(T x, T y) {
  if constexpr (std::is_floating_point_v<T>)
    return x + y;
  else
    return static_cast<T>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
}
template <typename T>
T minus(T x, T y) {
  if constexpr (std::is_floating_point_v<T>)
    return x - y;
  else
    return static_cast<T>(static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y));
}
template <typename T>
T times(T x, T y) {
  if constexpr (std::is_floating_point_v<T>)
    return x * y;
  else
    return static_cast<T>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
}

/// An integer cut to `width_bits` and extended again; a bool is != 0.
template <typename T>
T wrap(T value, int width_bits) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    if (width_bits == 1) return static_cast<T>(value != T{});
    const int unused_bits = 64 - width_bits;
    return static_cast<T>(static_cast<T>(static_cast<std::uint64_t>(value) << unused_bits) >> unused_bits);
  }
}

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value);
  else
    return false;
}

template <typename T>
T maximum(T x, T y) {
  if (is_nan(x)) return x;
  if (is_nan(y)) return y;
  return x < y ? y : x;
}
template <typename T>
T minimum(T x, T y) {
  if (is_nan(x)) return x;
  if (is_nan(y)) return y;
  return y < x ? y : x;
}

/// Python's and NumPy's: rounded towards minus infinity, and exact where the quotient is. Integers: 0 for a zero
/// divisor.
double floor_divide(double x, double y);
std::int64_t floor_divide(std::int64_t x, std::int64_t y);
std::uint64_t floor_divide(std::uint64_t x, std::uint64_t y);

/// Python's and NumPy's: the sign of the divisor. Integers: 0 for a zero divisor.
double floor_remainder(double x, double y);
std::int64_t floor_remainder(std::int64_t x, std::int64_t y);
std::uint64_t floor_remainder(std::uint64_t x, std::uint64_t y);

/// Integers wrap; a negative exponent gives 0, but 1 for base 1 and +-1 for base -1.
double power(double x, double y);
std::int64_t power(std::int64_t x, std::int64_t y);
std::uint64_t power(std::uint64_t x, std::uint64_t y);

/// A negative count, or one of the width or more, shifts everything out.
std::int64_t shift_left(std::int64_t x, std::int64_t y, int width_bits);
std::uint64_t shift_left(std::uint64_t x, std::uint64_t y, int width_bits);
std::int64_t shift_right(std::int64_t x, std::int64_t y, int width_bits);
std::uint64_t shift_right(std::uint64_t x, std::uint64_t y, int width_bits);

}  // namespace kiln::elementwise
