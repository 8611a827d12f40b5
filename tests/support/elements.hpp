#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "core/dtype.hpp"
#include "core/float_formats.hpp"
#include "core/tensor.hpp"

namespace kiln::test {

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

/// A number of any dtype but bool; of an integer type what the dtype has of it.
inline double read_number(DType dtype, const void* at) {
  if (is_floating(dtype)) return read_float(dtype, at);
  const std::uint64_t bits = read_integer(dtype, at);
  return info(dtype).is_signed ? static_cast<double>(static_cast<std::int64_t>(bits)) : static_cast<double>(bits);
}
inline void write_number(DType dtype, void* at, double value) {
  if (is_floating(dtype)) return write_float(dtype, at, value);
  const std::uint64_t bits =
      value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value);
  std::memcpy(at, &bits, static_cast<std::size_t>(itemsize_bytes(dtype)));
}

}  // namespace kiln::test
