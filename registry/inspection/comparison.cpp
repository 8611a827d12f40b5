#include "registry/inspection/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/errors.hpp"
#include "core/float_formats.hpp"

namespace kiln {
namespace {

/// x86's long double has 64 bits of mantissa: every value of every dtype, i64 and u64 included, is exact in it.
static_assert(std::numeric_limits<long double>::digits >= 64);

template <typename T, typename Read>
Comparison compare_elements(const TensorView& actual, const TensorView& expected, Tolerance tolerance, Read read) {
  const T* const actual_data = static_cast<const T*>(actual.data);
  const T* const expected_data = static_cast<const T*>(expected.data);
  Comparison result;
  result.num_elements = actual.numel();
  long double worst_excess = -1;
  for (std::int64_t i = 0; i < result.num_elements; ++i) {
    const long double a = read(actual_data[i]);
    const long double e = read(expected_data[i]);
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(static_cast<double>(e));
    // Excess: error over allowed error; at most 1 is right.
    long double excess = 0;
    if (std::isfinite(a) && std::isfinite(e)) {
      const long double error = std::abs(a - e);
      result.max_error = std::max(result.max_error, static_cast<double>(error));
      if (error > 0) excess = allowed > 0 ? error / allowed : std::numeric_limits<long double>::infinity();
    } else if (!(std::isnan(a) && std::isnan(e)) && a != e) {
      excess = std::numeric_limits<long double>::infinity();
    }
    result.num_wrong += excess > 1;
    if (excess > worst_excess) {
      worst_excess = excess;
      result.worst_index = i;
      result.worst_actual = a;
      result.worst_expected = e;
      result.worst_allowed = allowed;
    }
  }
  return result;
}

}  // namespace

Comparison compare(const TensorView& actual, const TensorView& expected, Tolerance tolerance) {
  if (actual.dtype != expected.dtype || actual.shape != expected.shape || actual.device.is_cuda() ||
      expected.device.is_cuda())
    throw InternalError("cannot compare " + describe(actual) + " with " + describe(expected));
  const auto plain = [&]<typename T>(T) {
    return compare_elements<T>(actual, expected, tolerance, [](T value) { return static_cast<long double>(value); });
  };
  const auto narrow = [&]<typename T>(T, auto widen) {
    return compare_elements<T>(actual, expected, tolerance,
                               [=](T bits) { return static_cast<long double>(widen(bits)); });
  };
  switch (actual.dtype) {
    case DType::f64:
      return plain(double{});
    case DType::f32:
      return plain(float{});
    case DType::f16:
      return narrow(std::uint16_t{}, [](std::uint16_t bits) { return formats::f16_to_f32(bits); });
    case DType::bf16:
      return narrow(std::uint16_t{}, [](std::uint16_t bits) { return formats::bf16_to_f32(bits); });
    case DType::fp8e4m3:
      return narrow(std::uint8_t{}, [](std::uint8_t bits) { return formats::fp8e4m3_to_f32(bits); });
    case DType::fp8e5m2:
      return narrow(std::uint8_t{}, [](std::uint8_t bits) { return formats::fp8e5m2_to_f32(bits); });
    case DType::i64:
      return plain(std::int64_t{});
    case DType::i32:
      return plain(std::int32_t{});
    case DType::i16:
      return plain(std::int16_t{});
    case DType::i8:
      return plain(std::int8_t{});
    case DType::u64:
      return plain(std::uint64_t{});
    case DType::u32:
      return plain(std::uint32_t{});
    case DType::u16:
      return plain(std::uint16_t{});
    case DType::u8:
    case DType::bool_:
      return plain(std::uint8_t{});
  }
  throw InternalError("compare: a dtype without a case");
}

std::string coordinates(std::int64_t index, const Dims& shape) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(shape.size()));
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    at[static_cast<std::size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

std::string format_element(long double value, DType dtype) {
  if (!is_floating(dtype)) return fmt::format("{:.0f}", value);
  if (dtype == DType::f64) return fmt::format("{}", static_cast<double>(value));
  return fmt::format("{}", static_cast<float>(value));
}

}  // namespace kiln
