#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/op_spec.hpp"

namespace kiln::cli {

/// One attribute's value, read as the type of its default: true, 3, 0.5, f16, "tanh", 0,1 or 4x5 (lists), none. Where
/// the default is None, the text itself decides. UsageError(value) naming the attribute, the text and what was
/// expected.
AttributeValue parse_attribute_value(const AttributeSpec& attribute, std::string_view text);

/// "name=value" items. UsageError(value) for a name the op lacks (naming the nearest), one given twice, or a value of
/// another type.
Attributes parse_attributes(const OpSpec& spec, std::span<const std::string> items);

/// For people: "int", "float", "bool", "dtype", "string", "list of int", "number, dtype, list of int or none".
std::string_view attribute_type(const AttributeSpec& attribute);

}  // namespace kiln::cli
