#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>

#include "ops/op_spec.hpp"
#include "tests/support/elements.hpp"

/// Elements as an op's spec has them: how far off they may be, and what random ones are.
namespace kiln::test {

/// NaN matches NaN, an infinity the same infinity; other floats by tolerance, integers and booleans exactly (a boolean
/// byte is 0 or 1).
inline bool element_matches(DType dtype, const void* got, const void* want, const Tolerance& tolerance) {
  if (!is_floating(dtype)) return read_integer(dtype, got) == read_integer(dtype, want);
  const double g = read_float(dtype, got), w = read_float(dtype, want);
  if (std::isnan(w) || std::isnan(g)) return std::isnan(w) && std::isnan(g);
  if (std::isinf(w) || std::isinf(g)) return w == g;
  return std::abs(g - w) <= tolerance.absolute + tolerance.relative * std::abs(w);
}

/// Writes NaN, an infinity, a zero or a one: values whose place among others does not change by rounding, so that ops
/// that combine many elements have one right result.
inline void write_nonfinite(DType dtype, void* at, std::mt19937_64& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double values[] = {std::nan(""), kInf, -kInf, 0.0, -0.0, 1.0, -1.0};
  write_float(dtype, at, values[random() % std::size(values)]);
}

/// Writes a random integer of [low, high].
inline void write_integer_between(DType dtype, void* at, double low, double high, std::mt19937_64& random) {
  const auto bits = static_cast<std::uint64_t>(std::uniform_int_distribution<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(low)), static_cast<std::int64_t>(high))(random));
  std::memcpy(at, &bits, static_cast<std::size_t>(itemsize_bytes(dtype)));
}

/// Writes a random value: in [range.low, range.high], or with `special` sometimes one of the dtype's awkward values.
inline void write_random(DType dtype, void* at, const InputRange& range, bool special, std::mt19937_64& random) {
  const std::int64_t itemsize = itemsize_bytes(dtype);
  if (dtype == DType::bool_) return write_as(at, static_cast<std::uint8_t>(random() & 1));
  if (is_floating(dtype)) {
    if (special && random() % 4 == 0) {
      constexpr double kInf = std::numeric_limits<double>::infinity();
      const double awkward[] = {std::nan(""), kInf,  -kInf,  0.0,  -0.0, 1.0,     -1.0,  0.5,  1.5,  2.5,
                                -0.5,         1e-40, -1e-40, 6e-8, 1e-3, 65504.0, 448.0, 3e38, -3e38};
      return write_float(dtype, at, awkward[random() % std::size(awkward)]);
    }
    return write_float(dtype, at, std::uniform_real_distribution<double>(range.low, range.high)(random));
  }
  std::uint64_t bits = random();
  if (special && random() % 4 == 0) {
    const std::uint64_t highest = ~std::uint64_t{0} >> (64 - 8 * itemsize + (info(dtype).is_signed ? 1 : 0));
    const std::uint64_t awkward[] = {0, 1, ~std::uint64_t{0}, highest, ~highest, highest - 1, 2, 31, 63, 64};
    bits = awkward[random() % std::size(awkward)];
  } else if (random() % 8 != 0) {
    const double low = info(dtype).is_signed ? range.low : std::max(0.0, range.low);
    return write_integer_between(dtype, at, low, std::max(range.high, low + 1), random);
  }
  std::memcpy(at, &bits, static_cast<std::size_t>(itemsize));
}

}  // namespace kiln::test
