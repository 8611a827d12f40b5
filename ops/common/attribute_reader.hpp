#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/attributes.hpp"

namespace kiln {

// What ops of several families read attributes for; `op` and `attribute` are for messages.

/// The axis 0 to ndim - 1 that `dim` names, counted from the end where it is negative. A tensor without dimensions
/// takes 0 and -1, as torch's do. UsageError(value) naming op, attribute, value and range.
int axis_of(std::string_view op, std::string_view attribute, std::int64_t dim, int ndim);
/// As above for an attribute that is one integer. UsageError(type) for another type.
int axis_of(std::string_view op, std::string_view attribute, const AttributeValue& dim, int ndim);

/// The axes an attribute names, ascending: None is all of them, an integer one, a list each of its own (an empty list
/// none). UsageError(value) for an axis that is not there or named twice; UsageError(type) for another type.
std::vector<int> axes_of(std::string_view op, std::string_view attribute, const AttributeValue& dims, int ndim);

/// The dtype an attribute names, itself or as text ("f32"); nothing for None. UsageError(type) for anything else, which
/// says what was `expected`, and UsageError(value) for text that names no dtype.
std::optional<DType> dtype_of(std::string_view op, std::string_view attribute, const AttributeValue& value,
                              std::string_view expected = "a dtype or None");

/// "f32, f16".
std::string dtype_names(std::span<const DType> dtypes);

}  // namespace kiln
