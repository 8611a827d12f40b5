#include "ops/normalization/norm_call.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <variant>

#include "core/errors.hpp"

namespace kiln::normalization {
namespace {

/// The distance from 1 to the next number, by which torch's rms_norm regularizes unless it is told otherwise.
double machine_epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::fp8e4m3:
      return 0x1p-3;
    default:
      return 0x1p-2;
  }
}

double eps_of(std::string_view op, const Attributes& attributes, DType dtype) {
  const AttributeValue& value = *attributes.find("eps");
  if (std::holds_alternative<std::monostate>(value)) return machine_epsilon(dtype);
  if (!std::holds_alternative<double>(value) && !std::holds_alternative<std::int64_t>(value))
    throw_type_error(fmt::format("op '{}': attribute 'eps' is {}, expected a number or None", op, to_string(value)));
  const double eps = attributes.get_double("eps");
  if (!(eps >= 0) || std::isinf(eps))
    throw_value_error(fmt::format("op '{}': attribute 'eps' is {}, expected a finite number, 0 or more", op, eps));
  return eps;
}

/// The first normalized axis.
int first_axis_of(std::string_view op, const Attributes& attributes, const TensorView& x) {
  const AttributeValue& value = *attributes.find("normalized_shape");
  if (x.ndim() == 0)
    throw_value_error(fmt::format("op '{}': input 'x' has no dimensions; there is nothing to normalize over", op));
  if (std::holds_alternative<std::monostate>(value)) return x.ndim() - 1;
  std::vector<std::int64_t> shape;
  if (const auto* extent = std::get_if<std::int64_t>(&value))
    shape = {*extent};
  else if (const auto* extents = std::get_if<std::vector<std::int64_t>>(&value))
    shape = *extents;
  else
    throw_type_error(
        fmt::format("op '{}': attribute 'normalized_shape' is {}, expected an integer, a list of integers or None (the "
                    "last dimension)",
                    op, to_string(value)));
  const int first = x.ndim() - static_cast<int>(shape.size());
  bool matches = !shape.empty() && first >= 0;
  for (int axis = first; matches && axis < x.ndim(); ++axis)
    matches = shape[static_cast<std::size_t>(axis - first)] == x.shape[axis];
  if (!matches)
    throw_value_error(
        fmt::format("op '{}': attribute 'normalized_shape' is {}, but input 'x' has shape {}; expected x's last "
                    "dimension or dimensions",
                    op, to_string(value), to_string(x.shape)));
  return first;
}

/// weight and bias: the normalized shape, in x's dtype or, beside a narrow x, in f32.
void check_parameter(std::string_view op, std::string_view input, const TensorView& view, const TensorView& x,
                     int first_axis) {
  Dims expected;
  for (int axis = first_axis; axis < x.ndim(); ++axis) expected.push_back(x.shape[axis]);
  if (view.shape != expected)
    throw_value_error(fmt::format("op '{}': input '{}' has shape {}, expected {}, the normalized dimensions of 'x' {}",
                                  op, input, to_string(view.shape), to_string(expected), to_string(x.shape)));
  if (view.dtype != x.dtype && !(view.dtype == DType::f32 && x.dtype != DType::f64))
    throw_type_error(fmt::format("op '{}': input '{}' is {}, expected {}{}, since 'x' is {}", op, input,
                                 name(view.dtype), name(x.dtype), x.dtype == DType::f64 ? "" : " or f32",
                                 name(x.dtype)));
}

}  // namespace

NormCall norm_call(bool is_layer, const CallInputs& inputs, const Attributes& attributes) {
  const std::string_view op = is_layer ? "layer_norm" : "rms_norm";
  const TensorView& x = inputs[0];
  NormCall call;
  call.first_axis = first_axis_of(op, attributes, x);
  call.eps = eps_of(op, attributes, x.dtype);
  call.weight = inputs.find(1);
  (is_layer ? call.bias : call.residual) = inputs.find(2);
  if (call.weight != nullptr) check_parameter(op, "weight", *call.weight, x, call.first_axis);
  if (call.bias != nullptr) {
    check_parameter(op, "bias", *call.bias, x, call.first_axis);
    if (call.weight != nullptr && call.bias->dtype != call.weight->dtype)
      throw_type_error(fmt::format("op '{}': input 'bias' is {}, but 'weight' is {}; expected one dtype for both", op,
                                   name(call.bias->dtype), name(call.weight->dtype)));
  }
  if (call.residual != nullptr) {
    if (call.residual->shape != x.shape)
      throw_value_error(fmt::format("op '{}': input 'residual' has shape {}, expected {}, the shape of 'x'", op,
                                    to_string(call.residual->shape), to_string(x.shape)));
    if (call.residual->dtype != x.dtype)
      throw_type_error(fmt::format("op '{}': input 'residual' is {}, expected {}, the dtype of 'x'", op,
                                   name(call.residual->dtype), name(x.dtype)));
  }
  return call;
}

}  // namespace kiln::normalization
