#pragma once

#include "compiler/tl/cpu/vector_bytes.hpp"
#include "compiler/tl/number.hpp"

namespace kiln::tl {

// CPUs divide vectors of floats alone, whole numbers one by one. These have no branch and become vectors.

/// Whether x / y of T is worth computing by floats: up to 32 bits always (262,144 i32 took 520 us as integers, 94 so);
/// signed ones of 64 where AVX-512 converts them (a floored remainder of 2,099,200, one thread of a Zen 4: 12.1 ms as
/// integers, which LLVM takes out of vectors for it, 2.8 so, 4.2 in NumPy).
template <Integer T>
KILN_DEVICE bool divides_by_floats() {
  return sizeof(T) <= 4 || (is_same<T, int64_t> && kiln_vector_bytes == 64);
}

/// x / y of up to 32 bits, 0 where y is 0 or -1: a quotient of 32-bit numbers in double, of 16-bit ones in float, lies
/// nearer to the exact one than that to a whole number that it does not reach, so that the same is cut off.
template <Integer T>
  requires(sizeof(T) <= 4)
KILN_DEVICE T quotient_by_floats(T x, T y) {
  using Exact = conditional_t<sizeof(T) <= 2, float, double>;
  using Whole = conditional_t<NumberTraits<T>::kIsSigned, int32_t, uint32_t>;
  const bool is_special = y == T{0} || (NumberTraits<T>::kIsSigned && y == static_cast<T>(-1));
  const auto quotient = static_cast<Exact>(is_special ? T{0} : x) / static_cast<Exact>(is_special ? T{1} : y);
  return static_cast<T>(static_cast<Whole>(quotient));
}

/// x / y of 64 bits, by two quotients in double, the second of what the first leaves. The first, of which 52 bits are
/// right, leaves at most 2^12 + |y|; the second is then the exact one or off by one, and the sign and the size of what
/// is left say which. 0 where y is 0; |y| of 1, whose first quotient need not fit 64 bits, is taken out.
template <Integer T>
  requires(sizeof(T) == 8)
KILN_DEVICE T quotient_by_floats(T x, T y) {
  const auto bits = [](T number) { return static_cast<uint64_t>(number); };
  const auto magnitude = [&](T number) { return number < 0 ? -bits(number) : bits(number); };
  const bool is_unit = magnitude(y) <= 1;
  const T divisor = is_unit ? T{2} : y;
  const auto over = static_cast<double>(divisor);
  const T first = static_cast<T>(static_cast<double>(x) / over);
  const T after_first = static_cast<T>(bits(x) - bits(first) * bits(divisor));
  const T second = static_cast<T>(static_cast<double>(after_first) / over);
  const T left = static_cast<T>(bits(after_first) - bits(second) * bits(divisor));
  const T towards = static_cast<T>((x < 0) != (divisor < 0) ? -1 : 1);  // where larger quotients lie
  const bool is_beyond = left != 0 && (left < 0) != (x < 0), is_short = magnitude(left) >= magnitude(divisor);
  const T quotient =
      static_cast<T>(bits(first) + bits(second) + bits(is_beyond ? -towards : (is_short ? towards : T{0})));
  return is_unit ? static_cast<T>(bits(x) * bits(y)) : quotient;
}

}  // namespace kiln::tl
