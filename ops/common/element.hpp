#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/dtype.hpp"
#include "core/float_formats.hpp"
#include "core/tensor.hpp"

namespace kiln::common {

/// Towards zero, clamped to Int's range; 0 for NaN.
template <typename Int>
Int saturate(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<Int>::min())) return std::numeric_limits<Int>::min();
  if (value >= static_cast<double>(std::numeric_limits<Int>::max())) return std::numeric_limits<Int>::max();
  return static_cast<Int>(value);
}

/// Float to integer saturates, integer to integer wraps, anything to bool is != 0.
template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>)
    return value != From{};
  else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>)
    return saturate<To>(static_cast<double>(value));
  else
    return static_cast<To>(value);
}

/// A float from which a narrower format rounds as it would from `value` itself: truncated, with the last bit set when
/// anything was cut off. Rounding to nearest here would round twice, and miss halfway cases.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  const float truncated =
      std::abs(static_cast<double>(nearest)) > std::abs(value) ? std::nextafter(nearest, 0.0F) : nearest;
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, truncated) | 1U);
}

/// Calls `use` with the value at `address`: float or double for the floating dtypes, the integer type itself otherwise.
template <typename Use>
auto visit_element(const void* address, DType dtype, Use use) {
  const auto bits = [address]<typename Raw>(Raw raw) {
    std::memcpy(&raw, address, sizeof raw);
    return raw;
  };
  switch (dtype) {
    case DType::f64:
      return use(bits(double{}));
    case DType::f32:
      return use(bits(float{}));
    case DType::f16:
      return use(formats::f16_to_f32(bits(std::uint16_t{})));
    case DType::bf16:
      return use(formats::bf16_to_f32(bits(std::uint16_t{})));
    case DType::fp8e4m3:
      return use(formats::fp8e4m3_to_f32(bits(std::uint8_t{})));
    case DType::fp8e5m2:
      return use(formats::fp8e5m2_to_f32(bits(std::uint8_t{})));
    case DType::i64:
      return use(bits(std::int64_t{}));
    case DType::i32:
      return use(bits(std::int32_t{}));
    case DType::i16:
      return use(bits(std::int16_t{}));
    case DType::i8:
      return use(bits(std::int8_t{}));
    case DType::u64:
      return use(bits(std::uint64_t{}));
    case DType::u32:
      return use(bits(std::uint32_t{}));
    case DType::u16:
      return use(bits(std::uint16_t{}));
    case DType::u8:
      return use(bits(std::uint8_t{}));
    case DType::bool_:
      break;
  }
  return use(bits(std::uint8_t{}) != 0);
}

/// The element as T (double, int64_t or uint64_t), converted by the family's rules.
template <typename T>
T load_element(const void* address, DType dtype) {
  return visit_element(address, dtype, [](auto value) { return convert<T>(value); });
}

/// Rounds once to `dtype`, or converts by the family's integer rules. T is double, int64_t or uint64_t.
template <typename T>
void store_element(void* address, DType dtype, T value) {
  const auto put = [address](auto raw) { std::memcpy(address, &raw, sizeof raw); };
  const auto narrow = [value] { return round_to_odd(static_cast<double>(value)); };
  switch (dtype) {
    case DType::f64:
      return put(static_cast<double>(value));
    case DType::f32:
      return put(static_cast<float>(value));
    case DType::f16:
      return put(static_cast<std::uint16_t>(formats::f32_to_f16(narrow())));
    case DType::bf16:
      return put(static_cast<std::uint16_t>(formats::f32_to_bf16(narrow())));
    case DType::fp8e4m3:
      return put(static_cast<std::uint8_t>(formats::f32_to_fp8e4m3(narrow())));
    case DType::fp8e5m2:
      return put(static_cast<std::uint8_t>(formats::f32_to_fp8e5m2(narrow())));
    case DType::i64:
      return put(convert<std::int64_t>(value));
    case DType::i32:
      return put(convert<std::int32_t>(value));
    case DType::i16:
      return put(convert<std::int16_t>(value));
    case DType::i8:
      return put(convert<std::int8_t>(value));
    case DType::u64:
      return put(convert<std::uint64_t>(value));
    case DType::u32:
      return put(convert<std::uint32_t>(value));
    case DType::u16:
      return put(convert<std::uint16_t>(value));
    case DType::u8:
      return put(convert<std::uint8_t>(value));
    case DType::bool_:
      return put(static_cast<std::uint8_t>(convert<bool>(value)));
  }
}

/// `value` after a trip through `dtype`, as To. From and To are double, int64_t or uint64_t.
template <typename To, typename From>
To through(DType dtype, From value) {
  alignas(8) unsigned char buffer[8];
  store_element<From>(buffer, dtype, value);
  return load_element<To>(buffer, dtype);
}

/// The address of the element `offset` elements from a view's first.
inline std::byte* address_at(const TensorView& view, std::int64_t offset) {
  return static_cast<std::byte*>(view.data) + offset * itemsize_bytes(view.dtype);
}
template <typename T>
T load_at(const TensorView& view, std::int64_t offset) {
  return load_element<T>(address_at(view, offset), view.dtype);
}
template <typename T>
void store_at(const TensorView& view, std::int64_t offset, T value) {
  store_element<T>(address_at(view, offset), view.dtype, value);
}

}  // namespace kiln::common
