#include "ops/common/attribute_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <variant>

#include "core/errors.hpp"

namespace kiln {

int axis_of(std::string_view op, std::string_view attribute, std::int64_t dim, int ndim) {
  const std::int64_t axes = std::max(ndim, 1);
  if (dim < -axes || dim >= axes)
    throw_value_error(fmt::format("op '{}': attribute '{}' is {}, but the tensor has {} dimension{}; expected {} to {}",
                                  op, attribute, dim, ndim, ndim == 1 ? "" : "s", -axes, axes - 1));
  return static_cast<int>(dim < 0 ? dim + axes : dim);
}

int axis_of(std::string_view op, std::string_view attribute, const AttributeValue& dim, int ndim) {
  const auto* axis = std::get_if<std::int64_t>(&dim);
  if (axis == nullptr)
    throw_type_error(fmt::format("op '{}': attribute '{}' is {}, expected one integer", op, attribute, to_string(dim)));
  return axis_of(op, attribute, *axis, ndim);
}

std::vector<int> axes_of(std::string_view op, std::string_view attribute, const AttributeValue& dims, int ndim) {
  std::vector<int> axes;
  if (std::holds_alternative<std::monostate>(dims)) {
    axes.resize(static_cast<std::size_t>(ndim));
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&dims)) {
    for (const std::int64_t dim : *list) axes.push_back(axis_of(op, attribute, dim, ndim));
  } else if (const auto* dim = std::get_if<std::int64_t>(&dims)) {
    axes.push_back(axis_of(op, attribute, *dim, ndim));
  } else {
    throw_type_error(fmt::format("op '{}': attribute '{}' is {}, expected an integer, a list of integers or None", op,
                                 attribute, to_string(dims)));
  }
  std::sort(axes.begin(), axes.end());
  if (const auto twice = std::adjacent_find(axes.begin(), axes.end()); twice != axes.end())
    throw_value_error(fmt::format("op '{}': attribute '{}' is {}, which names dimension {} twice", op, attribute,
                                  to_string(dims), *twice));
  if (ndim == 0) axes.clear();
  return axes;
}

std::optional<DType> dtype_of(std::string_view op, std::string_view attribute, const AttributeValue& value,
                              std::string_view expected) {
  if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
  if (const auto* dtype = std::get_if<DType>(&value)) return *dtype;
  if (const auto* text = std::get_if<std::string>(&value)) return parse_dtype(*text);
  throw_type_error(
      fmt::format("op '{}': attribute '{}' is {}, expected {}", op, attribute, to_string(value), expected));
}

std::string dtype_names(std::span<const DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : ", ", name(dtype));
  return text;
}

}  // namespace kiln
