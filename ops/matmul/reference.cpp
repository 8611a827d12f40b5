#include "ops/matmul/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/common/element.hpp"
#include "ops/common/tolerance.hpp"

namespace kiln::matmul {
namespace {

using common::load_element;
using common::store_element;

const std::byte* element(const TensorView& view, std::int64_t offset) {
  return static_cast<const std::byte*>(view.data) + offset * itemsize_bytes(view.dtype);
}

/// The offset of the element of `view` that broadcasts to `index`, of which `ignored` trailing axes are not view's.
std::int64_t broadcast_offset(const TensorView& view, const Dims& index, int view_ignored, int index_ignored) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < view.ndim() - view_ignored; ++axis) {
    const int beside = index.size() - index_ignored - (view.ndim() - view_ignored) + axis;
    if (view.shape[axis] > 1) offset += index[beside] * view.strides[axis];
  }
  return offset;
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return std::isnan(x) ? x : std::max(x, 0.0);
    case Activation::gelu:
      return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::none:
      break;
  }
  return x;
}

/// T is double or int64_t. Doubles are added up in long double: rounded to double, hundreds of equal products would
/// round one way and be further from the truth than what is held against them.
template <typename T>
T product_of(const Problem& problem, const Dims& index) {
  const TensorView &a = problem.a, &b = problem.b;
  const bool has_rows = a.ndim() > 1, has_columns = b.ndim() > 1;
  const int matrix_axes = (has_rows ? 1 : 0) + (has_columns ? 1 : 0);
  std::int64_t a_offset = broadcast_offset(a, index, has_rows ? 2 : 1, matrix_axes);
  std::int64_t b_offset = broadcast_offset(b, index, has_columns ? 2 : 1, matrix_axes);
  if (has_rows) a_offset += index[index.size() - matrix_axes] * a.strides[a.ndim() - 2];
  if (has_columns) b_offset += index.back() * b.strides.back();
  const std::int64_t b_k_stride = b.strides[has_columns ? b.ndim() - 2 : 0];
  using Sum = std::conditional_t<std::is_same_v<T, double>, long double, T>;
  Sum sum = 0;
  for (std::int64_t i = 0; i < a.shape.back(); ++i)
    sum += static_cast<Sum>(load_element<T>(element(a, a_offset + i * a.strides.back()), a.dtype)) *
           static_cast<Sum>(load_element<T>(element(b, b_offset + i * b_k_stride), b.dtype));
  return static_cast<T>(sum);
}

double scale_of(const OpCall& call, int input) {
  if (input < 0) return 1;
  const TensorView& scale = call.inputs[static_cast<std::size_t>(input)];
  return load_element<double>(scale.data, scale.dtype);
}

/// The output's element at `index`. T as above.
template <typename T>
T value_at(const Problem& problem, const OpCall& call, const Dims& index) {
  T value = product_of<T>(problem, index);
  if constexpr (std::is_same_v<T, double>) {
    if (problem.a.dtype == DType::i8) value = static_cast<double>(product_of<std::int64_t>(problem, index));
    value *= problem.alpha * scale_of(call, problem.scale_a_input) * scale_of(call, problem.scale_b_input);
  } else {
    value *= static_cast<T>(problem.alpha);
  }
  if (problem.addend_input >= 0 && problem.beta != 0)
    value +=
        static_cast<T>(problem.beta) *
        load_element<T>(element(problem.addend, broadcast_offset(problem.addend, index, 0, 0)), problem.addend.dtype);
  if constexpr (std::is_same_v<T, double>)
    return activate(problem.activation, value);
  else
    return problem.activation == Activation::relu ? std::max<T>(static_cast<std::int32_t>(value), 0) : value;
}

}  // namespace

void run_reference(const Problem& problem, const OpCall& call) {
  const TensorView& out = call.outputs[0];
  Dims index = out.shape;
  for (std::int64_t place = 0; place < out.numel(); ++place) {
    std::int64_t rest = place, offset = 0;
    for (int axis = out.ndim() - 1; axis >= 0; --axis) {
      index[axis] = rest % out.shape[axis];
      rest /= out.shape[axis];
      offset += index[axis] * out.strides[axis];
    }
    void* const address = static_cast<std::byte*>(out.data) + offset * itemsize_bytes(out.dtype);
    if (is_floating(out.dtype))
      store_element<double>(address, out.dtype, value_at<double>(problem, call, index));
    else
      store_element<std::int64_t>(address, out.dtype, value_at<std::int64_t>(problem, call, index));
  }
}

Tolerance tolerance(DType out) {
  if (!is_floating(out)) return {};
  const double step = out == DType::f64 ? 0x1p-52 : 0x1p-23;
  return rounded_to(out, {32 * step, static_cast<double>(kMostTestedK) * step});
}

}  // namespace kiln::matmul
