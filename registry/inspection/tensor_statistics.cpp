#include "registry/inspection/tensor_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/errors.hpp"
#include "core/float_formats.hpp"
#include "registry/inspection/comparison.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

/// The elements that a view names once: without the axes that repeat them, whose statistics they share.
struct Distinct {
  TensorView view;
  std::int64_t repeats = 1;
};

Distinct distinct(const TensorView& tensor) {
  Distinct result{tensor};
  result.view.shape = {};
  result.view.strides = {};
  for (int axis = 0; axis < tensor.ndim(); ++axis) {
    if (tensor.strides[axis] == 0 && tensor.shape[axis] > 1) {
      result.repeats *= tensor.shape[axis];
      continue;
    }
    result.view.shape.push_back(tensor.shape[axis]);
    result.view.strides.push_back(tensor.strides[axis]);
  }
  return result;
}

/// In long double, which holds every integer, and in which no sum of finite doubles overflows.
struct Sums {
  TensorStatistics statistics;
  long double total = 0;

  void add(long double value) {
    ++statistics.num_elements;
    if (!std::isfinite(value)) {
      ++(std::isnan(value) ? statistics.num_nan : statistics.num_inf);
      return;
    }
    const bool is_first = statistics.num_finite() == 1;
    statistics.min = is_first ? value : std::min(statistics.min, value);
    statistics.max = is_first ? value : std::max(statistics.max, value);
    total += value;
  }
};

/// Walks a view whose memory the CPU can read, last axis innermost.
template <typename T, typename Read>
void add_all(const TensorView& view, Sums& sums, Read read) {
  if (view.numel() == 0) return;
  const int last = view.ndim() - 1;
  const std::int64_t row_extent = last < 0 ? 1 : view.shape[last];
  const std::int64_t row_stride = last < 0 ? 0 : view.strides[last];
  Dims index = view.shape;
  for (int axis = 0; axis < index.size(); ++axis) index[axis] = 0;
  const T* row = static_cast<const T*>(view.data);
  while (true) {
    for (std::int64_t i = 0; i < row_extent; ++i) sums.add(static_cast<long double>(read(row[i * row_stride])));
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      row += view.strides[axis];
      if (++index[axis] < view.shape[axis]) break;
      row -= view.strides[axis] * view.shape[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

template <typename T>
void add_numbers(const TensorView& view, Sums& sums) {
  add_all<T>(view, sums, [](T value) { return value; });
}

void add_elements(const TensorView& view, Sums& sums) {
  switch (view.dtype) {
    case DType::f64:
      return add_numbers<double>(view, sums);
    case DType::f32:
      return add_numbers<float>(view, sums);
    case DType::f16:
      return add_all<std::uint16_t>(view, sums, [](std::uint16_t bits) { return formats::f16_to_f32(bits); });
    case DType::bf16:
      return add_all<std::uint16_t>(view, sums, [](std::uint16_t bits) { return formats::bf16_to_f32(bits); });
    case DType::fp8e4m3:
      return add_all<std::uint8_t>(view, sums, [](std::uint8_t bits) { return formats::fp8e4m3_to_f32(bits); });
    case DType::fp8e5m2:
      return add_all<std::uint8_t>(view, sums, [](std::uint8_t bits) { return formats::fp8e5m2_to_f32(bits); });
    case DType::i64:
      return add_numbers<std::int64_t>(view, sums);
    case DType::i32:
      return add_numbers<std::int32_t>(view, sums);
    case DType::i16:
      return add_numbers<std::int16_t>(view, sums);
    case DType::i8:
      return add_numbers<std::int8_t>(view, sums);
    case DType::u64:
      return add_numbers<std::uint64_t>(view, sums);
    case DType::u32:
      return add_numbers<std::uint32_t>(view, sums);
    case DType::u16:
      return add_numbers<std::uint16_t>(view, sums);
    case DType::u8:
      return add_numbers<std::uint8_t>(view, sums);
    case DType::bool_:
      return add_all<std::uint8_t>(view, sums, [](std::uint8_t value) { return value != 0; });
  }
  throw InternalError("tensor_statistics: a dtype without a case");
}

/// Of a dense tensor on a GPU, which may be larger than what the host has left.
void add_in_pieces(const TensorView& view, Sums& sums) {
  constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;
  const std::int64_t item_bytes = itemsize_bytes(view.dtype), count = view.numel();
  const std::int64_t piece = kPieceBytes / item_bytes;
  for (std::int64_t start = 0; start < count; start += piece) {
    std::byte* const data = static_cast<std::byte*>(view.data) + start * item_bytes;
    const Dims shape{std::min(piece, count - start)};
    add_elements(to_device(dense_view(data, view.dtype, shape, view.device), Device::cpu()), sums);
  }
}

}  // namespace

TensorStatistics tensor_statistics(const TensorView& tensor) {
  if (tensor.numel() == 0) return {};
  const Distinct elements = distinct(tensor);
  Sums sums;
  if (!tensor.device.is_cuda())
    add_elements(elements.view, sums);
  else if (elements.view.is_contiguous())
    add_in_pieces(elements.view, sums);
  else
    add_elements(to_device(elements.view, Device::cpu()), sums);
  TensorStatistics statistics = sums.statistics;
  if (statistics.num_finite() > 0)
    statistics.mean = static_cast<double>(sums.total / static_cast<long double>(statistics.num_finite()));
  statistics.num_elements *= elements.repeats;
  statistics.num_nan *= elements.repeats;
  statistics.num_inf *= elements.repeats;
  return statistics;
}

std::string to_string(const TensorStatistics& statistics, DType dtype) {
  if (statistics.num_elements == 0) return "no elements";
  const auto count = [](std::int64_t number, const char* what) {
    return number == 0 ? fmt::format("no {}", what) : fmt::format("{} {}", number, what);
  };
  std::string range = statistics.num_finite() == 0
                          ? "no finite element"
                          : fmt::format("min {}, max {}, mean {:.6g}", format_element(statistics.min, dtype),
                                        format_element(statistics.max, dtype), statistics.mean);
  if (!is_floating(dtype)) return range;
  return fmt::format("{}, {}, {}", range, count(statistics.num_nan, "NaN"), count(statistics.num_inf, "Inf"));
}

}  // namespace kiln
