#include "ops/reduction/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "ops/common/element.hpp"
#include "ops/common/tolerance.hpp"

namespace kiln::reduction {
namespace {

using common::load_element;
using common::store_element;

/// The byte offsets of the elements at all indices of `axes`, in row-major order.
std::vector<std::int64_t> offsets_along(const TensorView& view, const std::vector<int>& axes) {
  std::vector<std::int64_t> offsets = {0};
  for (const int axis : axes) {
    std::vector<std::int64_t> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(view.shape[axis]));
    for (const std::int64_t offset : offsets)
      for (std::int64_t i = 0; i < view.shape[axis]; ++i)
        next.push_back(offset + i * view.strides[axis] * itemsize_bytes(view.dtype));
    offsets = std::move(next);
  }
  return offsets;
}

bool is_nan(double x) {
  return std::isnan(x);
}
template <typename T>
bool is_nan(T) {
  return false;
}

/// The place of the most extreme value; NaN is more extreme than any, the first of equals wins.
template <typename T>
std::size_t extreme_place(const std::vector<T>& values, bool largest) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size() && !is_nan(values[best]); ++i)
    if (is_nan(values[i]) || (largest ? values[i] > values[best] : values[i] < values[best])) best = i;
  return best;
}

template <typename T>
T sum_of(const std::vector<T>& values) {
  if constexpr (std::is_floating_point_v<T>) {
    // Wider than the result: equal numbers (a broadcast input) round the same way each time, and a million such
    // roundings would show in a double.
    long double sum = 0;
    for (const T value : values) sum += value;
    return static_cast<T>(sum);
  } else {
    std::uint64_t sum = 0;
    for (const T value : values) sum += static_cast<std::uint64_t>(value);
    return static_cast<T>(sum);
  }
}

template <typename T>
T product_of(const std::vector<T>& values) {
  if constexpr (std::is_floating_point_v<T>) {
    T product = 1;
    for (const T value : values) product *= value;
    return product;
  } else {
    std::uint64_t product = 1;
    for (const T value : values) product *= static_cast<std::uint64_t>(value);
    return static_cast<T>(product);
  }
}

double variance_of(const std::vector<double>& values, double divisor) {
  // Distances from the first element: of equal numbers they are 0, and none is rounded by the size of the mean.
  const double first = values.empty() ? 0 : values[0];
  long double distances = 0, squares = 0;
  for (const double value : values) distances += value - first;
  const long double mean = distances / static_cast<long double>(values.size());
  for (const double value : values) {
    const long double distance = (value - first) - mean;
    squares += distance * distance;
  }
  return static_cast<double>(squares / divisor);
}

double norm_of(const std::vector<double>& values, double p) {
  constexpr auto kInfinity = std::numeric_limits<long double>::infinity();
  long double result = p == -kInfinity ? kInfinity : 0;
  for (const double value : values) {
    const long double size = std::abs(value);
    if (std::isinf(p))
      result = std::isnan(size) || std::isnan(result) ? std::nan("")
               : p > 0                                ? std::max(result, size)
                                                      : std::min(result, size);
    else
      result += p == 0 ? static_cast<long double>(value != 0) : std::pow(size, static_cast<long double>(p));
  }
  return static_cast<double>(p == 0 || std::isinf(p) ? result : std::pow(result, static_cast<long double>(1 / p)));
}

double logsumexp_of(const std::vector<double>& values) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const double value : values)
    largest = std::isnan(value) || std::isnan(largest) ? std::nan("") : std::max(largest, value);
  if (!std::isfinite(largest)) return largest;
  long double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + static_cast<double>(std::log(sum));
}

/// The value of one output.
template <typename T>
T reduce(const Reduction& reduction, const std::vector<T>& values) {
  switch (reduction.kind) {
    case Kind::sum:
      return sum_of(values);
    case Kind::prod:
      return product_of(values);
    case Kind::amax:
    case Kind::max:
      return values[extreme_place(values, true)];
    case Kind::amin:
    case Kind::min:
      return values[extreme_place(values, false)];
    case Kind::any:
      return static_cast<T>(std::any_of(values.begin(), values.end(), [](T value) { return value != T{}; }));
    case Kind::all:
      return static_cast<T>(std::all_of(values.begin(), values.end(), [](T value) { return value != T{}; }));
    default:
      break;
  }
  if constexpr (std::is_same_v<T, double>) {
    switch (reduction.kind) {
      case Kind::mean:
        return sum_of(values) / reduction.divisor;
      case Kind::var:
        return variance_of(values, reduction.divisor);
      case Kind::std:
        return std::sqrt(variance_of(values, reduction.divisor));
      case Kind::norm:
        return norm_of(values, reduction.exponent);
      case Kind::logsumexp:
        return logsumexp_of(values);
      default:
        break;
    }
  }
  return T{};  // argmax and argmin have no value
}

template <typename T>
void run(const Reduction& reduction, const OpCall& call) {
  const TensorView& input = call.inputs[0];
  std::vector<int> kept;
  for (int axis = 0; axis < input.ndim(); ++axis)
    if (std::find(reduction.axes.begin(), reduction.axes.end(), axis) == reduction.axes.end()) kept.push_back(axis);
  const std::vector<std::int64_t> reduced_offsets = offsets_along(input, reduction.axes);
  const std::vector<std::int64_t> kept_offsets = offsets_along(input, kept);
  std::vector<std::vector<std::int64_t>> output_offsets;
  for (const TensorView& output : call.outputs) {
    std::vector<int> axes;
    for (int axis = 0; axis < output.ndim(); ++axis) axes.push_back(axis);
    output_offsets.push_back(offsets_along(output, axes));
  }

  std::vector<T> values(reduced_offsets.size());
  for (std::size_t place = 0; place < kept_offsets.size(); ++place) {
    const std::byte* first = static_cast<const std::byte*>(input.data) + kept_offsets[place];
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = input.dtype == reduction.via
                      ? load_element<T>(first + reduced_offsets[i], input.dtype)
                      : common::visit_element(first + reduced_offsets[i], input.dtype, [&](auto value) {
                          if (is_floating(reduction.via) || std::is_floating_point_v<decltype(value)>)
                            return common::through<T>(reduction.via, static_cast<double>(value));
                          return common::through<T>(reduction.via, static_cast<std::int64_t>(value));
                        });
    const auto address = [&](std::size_t output) {
      return static_cast<std::byte*>(call.outputs[output].data) + output_offsets[output][place];
    };
    if (reduction.kind == Kind::argmax || reduction.kind == Kind::argmin) {
      const std::size_t index = extreme_place(values, reduction.kind == Kind::argmax);
      store_element<std::int64_t>(address(0), DType::i64, static_cast<std::int64_t>(index));
      continue;
    }
    store_element<T>(address(0), reduction.out, reduce(reduction, values));
    if (reduction.with_index)
      store_element<std::int64_t>(address(1), DType::i64,
                                  static_cast<std::int64_t>(extreme_place(values, reduction.kind == Kind::max)));
  }
}

}  // namespace

void run_reference(const OpRow& row, const OpCall& call) {
  const Reduction reduction = resolve(row, call.inputs[0], call.attributes);
  if (is_floating(reduction.via))
    run<double>(reduction, call);
  else if (reduction.via == DType::u64 && reduction.accumulator == DType::u64)
    run<std::uint64_t>(reduction, call);
  else
    run<std::int64_t>(reduction, call);
}

Tolerance tolerance(const OpRow& row, DType out) {
  if (!is_floating(out)) return {};
  // Lanes hold a few hundred elements each, at most a few thousand, and join pairwise: some tens of roundings lie
  // between an element and the result, all relative to it where the inputs have one sign. A product of thousands rounds
  // that often.
  const double step = out == DType::f64 ? 0x1p-52 : 0x1p-23;
  const bool selects =
      row.kind == Kind::amax || row.kind == Kind::amin || row.kind == Kind::max || row.kind == Kind::min;
  // The distances from the mean are what is rounded: nothing is absolute but squares below the smallest numbers. Rows
  // of memory are joined one after the other, and round each time: there may be thousands.
  if (row.kind == Kind::var || row.kind == Kind::std)
    return rounded_to(out, {256 * step, out == DType::f64 ? 1e-300 : 1e-37});
  Tolerance result{selects ? 0 : (row.kind == Kind::prod ? 4096 : 256) * step, selects ? 0 : 64 * step};
  if (row.kind == Kind::prod) result.absolute = out == DType::f64 ? 1e-300 : 1e-37;
  if (selects) return result;
  return rounded_to(out, result);
}

std::vector<InputRange> input_ranges(const OpRow& row) {
  switch (row.kind) {
    case Kind::sum:
    case Kind::mean:
      return {{0, 4}};
    case Kind::prod:
      return {{0.5, 1.75}};
    default:
      return {};
  }
}

}  // namespace kiln::reduction
