#include "ops/elementwise/promotion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/errors.hpp"
#include "ops/common/attribute_reader.hpp"
#include "ops/common/element.hpp"

namespace kiln::elementwise {
namespace {

DTypeCategory scalar_category(const AttributeValue& value) {
  if (std::holds_alternative<double>(value)) return DTypeCategory::floating;
  return std::holds_alternative<bool>(value) ? DTypeCategory::boolean : DTypeCategory::integer;
}

bool is_number(const AttributeValue& value) {
  return std::holds_alternative<bool>(value) || std::holds_alternative<std::int64_t>(value) ||
         std::holds_alternative<std::uint64_t>(value) || std::holds_alternative<double>(value);
}

/// "x f32, y i64, other 2.5".
std::string operands_text(const OpRow& row, std::span<const TensorView> inputs, const Attributes& attributes) {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", input_name(row, static_cast<int>(i)), name(inputs[i].dtype));
  for (const ScalarAttribute& scalar : scalar_attributes(row))
    if (scalar.promotes && !attributes.is_none(scalar.spec.name))
      text += fmt::format(", {} {}", scalar.spec.name, to_string(*attributes.find(scalar.spec.name)));
  return text;
}

void check_numbers(const OpRow& row, const Attributes& attributes) {
  for (const ScalarAttribute& scalar : scalar_attributes(row)) {
    const AttributeValue& value = *attributes.find(scalar.spec.name);
    const bool may_be_none = !scalar.spec.required && std::holds_alternative<std::monostate>(scalar.spec.fallback);
    if (!is_number(value) && !(may_be_none && std::holds_alternative<std::monostate>(value)))
      throw_type_error(fmt::format("op '{}': attribute '{}' is {}, expected a number{}", row.name, scalar.spec.name,
                                   to_string(value), may_be_none ? " or None" : ""));
  }
  if (row.name == "clamp" && attributes.is_none("min") && attributes.is_none("max"))
    throw_value_error("op 'clamp': both 'min' and 'max' are None; give at least one of them");
}

DType promote(const OpRow& row, std::span<const TensorView> inputs, const Attributes& attributes) {
  std::vector<PromotionOperand> operands;
  for (std::size_t i = row.rule == DTypeRule::where ? 1 : 0; i < inputs.size(); ++i)
    operands.push_back({inputs[i].dtype, inputs[i].ndim() == 0});
  DType promoted = DType::f32;
  try {
    promoted = result_type(operands);
  } catch (const UsageError& error) {
    throw UsageError(error.kind(),
                     fmt::format("op '{}' on {}: {}", row.name, operands_text(row, inputs, attributes), error.what()));
  }
  for (const ScalarAttribute& scalar : scalar_attributes(row)) {
    const AttributeValue& value = *attributes.find(scalar.spec.name);
    if (!scalar.promotes || std::holds_alternative<std::monostate>(value)) continue;
    const DTypeCategory category = scalar_category(value);
    if (category > info(promoted).category) promoted = category == DTypeCategory::floating ? DType::f32 : DType::i64;
  }
  return promoted;
}

bool promoted_is_legal(const OpRow& row, DType promoted) {
  switch (info(promoted).category) {
    case DTypeCategory::boolean:
      return row.allows_bool && row.rule != DTypeRule::float_only;
    case DTypeCategory::integer:
      return row.rule != DTypeRule::float_only;
    case DTypeCategory::floating:
      break;
  }
  return row.rule != DTypeRule::bitwise;
}

/// alpha = 0.5 on integers would silently become 0.
void check_whole_numbers(const OpRow& row, const Attributes& attributes, const ElementwiseTypes& types) {
  if (is_floating(types.compute) || row.rule == DTypeRule::fill) return;
  for (const ScalarAttribute& scalar : row.scalars) {
    if (scalar.promotes) continue;
    const double value = attributes.get_double(scalar.spec.name);
    const double end = types.compute == DType::u64 ? 0x1p64 : 0x1p63;
    if (!(std::trunc(value) == value && std::abs(value) < end))
      throw_value_error(fmt::format(
          "op '{}': attribute '{}' is {}, but the result's dtype {} needs a whole number; cast an input to a "
          "floating dtype first",
          row.name, scalar.spec.name, value, name(types.promoted)));
  }
}

/// A number that the integer type it is used in cannot hold would wrap into another one: x < 1000 over i8 would compare
/// with -24.
void check_ranges(const OpRow& row, const Attributes& attributes, const ElementwiseTypes& types) {
  if (!is_integer(types.compute)) return;
  const int value_bits = static_cast<int>(8 * itemsize_bytes(types.compute)) - (info(types.compute).is_signed ? 1 : 0);
  const long double end = std::ldexp(1.0L, value_bits);  // x86's long double holds every 64-bit integer
  const long double least = info(types.compute).is_signed ? -end : 0.0L;
  for (const ScalarAttribute& scalar : scalar_attributes(row)) {
    const AttributeValue& value = *attributes.find(scalar.spec.name);
    long double number = 0;
    if (const auto* whole = std::get_if<std::int64_t>(&value))
      number = static_cast<long double>(*whole);
    else if (const auto* large = std::get_if<std::uint64_t>(&value))
      number = static_cast<long double>(*large);
    else if (const auto* real = std::get_if<double>(&value))
      number = static_cast<long double>(*real);
    if (number < least || number >= end)
      throw_value_error(
          fmt::format("op '{}': attribute '{}' is {}, which {} cannot hold; cast the tensor to a wider dtype", row.name,
                      scalar.spec.name, to_string(value), name(types.compute)));
  }
}

/// Tensors of another dtype, and numbers, are not rounded to the promoted dtype before the operation.
bool computes_narrow(const OpRow& row, std::span<const TensorView> inputs, const Attributes& attributes,
                     DType promoted) {
  return row.narrow_arithmetic && (promoted == DType::f16 || promoted == DType::bf16) && inputs.size() == 2 &&
         inputs[0].dtype == promoted && inputs[1].dtype == promoted &&
         &form_of(row, attributes, promoted) == &row.forms[0];
}

}  // namespace

std::vector<DType> supported_dtypes(const OpRow& row) {
  // Beside a wider tensor or number a bool is promoted, so only an op of one tensor and nothing else refuses it
  // outright.
  const bool promotes = row.arity > 1 || std::any_of(row.scalars.begin(), row.scalars.end(),
                                                     [](const ScalarAttribute& scalar) { return scalar.promotes; });
  std::vector<DType> dtypes;
  for (const DType dtype : kAllDTypes)
    if (promoted_is_legal(row, dtype) || (dtype == DType::bool_ && promotes)) dtypes.push_back(dtype);
  return dtypes;
}

ElementwiseTypes resolve_types(const OpRow& row, std::span<const TensorView> inputs, const Attributes& attributes) {
  check_numbers(row, attributes);
  if (row.rule == DTypeRule::where && inputs[0].dtype != DType::bool_)
    throw_type_error(
        fmt::format("op 'where': 'condition' is {}, expected bool; use the op 'ne' with other=0 to make one",
                    name(inputs[0].dtype)));
  ElementwiseTypes types{};
  types.promoted = promote(row, inputs, attributes);
  if (!promoted_is_legal(row, types.promoted)) {
    std::vector<DType> legal;
    for (const DType dtype : kAllDTypes)
      if (promoted_is_legal(row, dtype)) legal.push_back(dtype);
    throw_not_implemented(fmt::format("op '{}' has no kernel for {}, which promotes to {}; supported: {}", row.name,
                                      operands_text(row, inputs, attributes), name(types.promoted),
                                      dtype_names(legal)));
  }
  if (row.rule == DTypeRule::to_float && !is_floating(types.promoted)) types.promoted = DType::f32;
  if (row.rule == DTypeRule::closeness && !is_floating(types.promoted)) types.promoted = DType::f64;
  types.compute =
      computes_narrow(row, inputs, attributes, types.promoted) ? types.promoted : compute_dtype(types.promoted);
  switch (row.rule) {
    case DTypeRule::comparison:
    case DTypeRule::predicate:
    case DTypeRule::closeness:
      types.out = DType::bool_;
      break;
    case DTypeRule::cast:
      types.out = attributes.get_dtype("dtype");
      break;
    default:
      types.out = types.promoted;
  }
  check_whole_numbers(row, attributes, types);
  check_ranges(row, attributes, types);
  return types;
}

ops::Scalars make_scalars(const OpRow& row, const Attributes& attributes, const ElementwiseTypes& types) {
  ops::Scalars scalars{};
  const auto set = [&](int slot, auto value) {
    const bool rounds_to_promoted = row.rule == DTypeRule::comparison && slot == kOtherSlot;
    if (is_floating(types.compute)) {
      const double rounded = common::through<double>(rounds_to_promoted ? types.promoted : types.compute, value);
      scalars.f[slot] = rounded;
      scalars.i[slot] = common::saturate<std::int64_t>(rounded);
    } else {
      scalars.f[slot] = static_cast<double>(value);
      scalars.i[slot] = info(types.compute).is_signed
                            ? common::through<std::int64_t>(types.compute, value)
                            : static_cast<std::int64_t>(common::through<std::uint64_t>(types.compute, value));
    }
  };
  for (const ScalarAttribute& scalar : scalar_attributes(row)) {
    const AttributeValue& value = *attributes.find(scalar.spec.name);
    if (std::holds_alternative<double>(value))
      set(scalar.slot, std::get<double>(value));
    else if (std::holds_alternative<std::int64_t>(value))
      set(scalar.slot, std::get<std::int64_t>(value));
    else if (std::holds_alternative<std::uint64_t>(value))
      set(scalar.slot, std::get<std::uint64_t>(value));
    else if (std::holds_alternative<bool>(value))
      set(scalar.slot, static_cast<std::int64_t>(std::get<bool>(value)));
  }
  return scalars;
}

}  // namespace kiln::elementwise
