#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "core/dtype.hpp"
#include "core/float_formats.hpp"
#include "core/tensor.hpp"
#include "ops/op_spec.hpp"

namespace kiln::testing {

/// Calls `visit(byte offset from data)` for every element, in row-major order of the indices.
inline void for_each_element(const TensorView& view, const std::function<void(std::int64_t)>& visit) {
  std::int64_t index[kMaxRank] = {};
  const std::int64_t count = view.numel();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < view.ndim(); ++axis) offset += index[axis] * view.strides[axis];
    visit(offset * itemsize_bytes(view.dtype));
    for (int axis = view.ndim() - 1; axis >= 0 && ++index[axis] == view.shape[axis]; --axis) index[axis] = 0;
  }
}

template <typename T>
T read_as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void write_as(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// The value of a floating element; exact for every floating dtype.
inline double read_float(DType dtype, const void* at) {
  switch (dtype) {
    case DType::f64:
      return read_as<double>(at);
    case DType::f32:
      return read_as<float>(at);
    case DType::f16:
      return formats::f16_to_f32(read_as<unsigned short>(at));
    case DType::bf16:
      return formats::bf16_to_f32(read_as<unsigned short>(at));
    case DType::fp8e4m3:
      return formats::fp8e4m3_to_f32(read_as<unsigned char>(at));
    default:
      return formats::fp8e5m2_to_f32(read_as<unsigned char>(at));
  }
}

/// The value of an integer or boolean element: its bits, sign- or zero-extended.
inline std::uint64_t read_integer(DType dtype, const void* at) {
  switch (dtype) {
    case DType::i64:
    case DType::u64:
      return read_as<std::uint64_t>(at);
    case DType::i32:
      return static_cast<std::uint64_t>(std::int64_t{read_as<std::int32_t>(at)});
    case DType::i16:
      return static_cast<std::uint64_t>(std::int64_t{read_as<std::int16_t>(at)});
    case DType::i8:
      return static_cast<std::uint64_t>(std::int64_t{read_as<std::int8_t>(at)});
    case DType::u32:
      return read_as<std::uint32_t>(at);
    case DType::u16:
      return read_as<std::uint16_t>(at);
    default:
      return read_as<std::uint8_t>(at);
  }
}

inline void write_float(DType dtype, void* at, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::f64:
      return write_as(at, value);
    case DType::f32:
      return write_as(at, single);
    case DType::f16:
      return write_as(at, formats::f32_to_f16(single));
    case DType::bf16:
      return write_as(at, formats::f32_to_bf16(single));
    case DType::fp8e4m3:
      return write_as(at, formats::f32_to_fp8e4m3(single));
    default:
      return write_as(at, formats::f32_to_fp8e5m2(single));
  }
}

inline std::string show_element(DType dtype, const void* at) {
  if (is_floating(dtype)) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", read_float(dtype, at));
    return text;
  }
  const std::uint64_t value = read_integer(dtype, at);
  return info(dtype).is_signed ? std::to_string(static_cast<std::int64_t>(value)) : std::to_string(value);
}

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

}  // namespace kiln::testing
