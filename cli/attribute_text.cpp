#include "cli/attribute_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"

namespace kiln::cli {
namespace {

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<AttributeValue> parse_integer(std::string_view text) {
  if (const auto value = parse_number<std::int64_t>(text)) return *value;
  if (const auto value = parse_number<std::uint64_t>(text)) return *value;
  return std::nullopt;
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "True" || text == "1") return true;
  if (text == "false" || text == "False" || text == "0") return false;
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> parse_list(std::string_view text) {
  if (text.size() >= 2 && ((text.front() == '[' && text.back() == ']') || (text.front() == '(' && text.back() == ')')))
    text = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> values;
  while (!text.empty()) {
    const std::size_t separator = text.find_first_of(",x");  // a shape is written as --shape has it
    std::string_view item = text.substr(0, separator);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    const auto value = parse_number<std::int64_t>(item);
    if (!value) return std::nullopt;
    values.push_back(*value);
    if (separator == std::string_view::npos) break;
    if (separator + 1 == text.size() && text.back() == 'x') return std::nullopt;
    text = text.substr(separator + 1);
  }
  return values;
}

/// For an attribute whose default, None, says nothing about its type; nullopt for what can be neither number, dtype nor
/// list.
std::optional<AttributeValue> guess_value(std::string_view text) {
  if (text == "none" || text == "None") return AttributeValue();
  if (const auto value = parse_integer(text)) return value;
  if (const auto value = parse_number<double>(text)) return *value;
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  if (const auto dtype = find_dtype(text)) return *dtype;
  if (text.find_first_of(",[(") != std::string_view::npos)
    if (const auto list = parse_list(text)) return *list;
  return std::nullopt;
}

template <typename Value>
AttributeValue value_or_fail(const AttributeSpec& attribute, std::string_view text, const std::optional<Value>& value) {
  if (!value)
    throw_value_error(
        fmt::format("--attr {}={}: expected {}{}", attribute.name, text, attribute_type(attribute),
                    std::holds_alternative<std::int64_t>(attribute.fallback) ? " of at most 64 bits" : ""));
  return *value;
}

}  // namespace

std::string_view attribute_type(const AttributeSpec& attribute) {
  static constexpr std::string_view kNames[] = {
      "number, dtype, list of int or none", "bool", "int", "float", "string", "dtype", "list of int", "int"};
  static_assert(std::size(kNames) == std::variant_size_v<AttributeValue>);
  return kNames[attribute.fallback.index()];
}

AttributeValue parse_attribute_value(const AttributeSpec& attribute, std::string_view text) {
  if (std::holds_alternative<std::monostate>(attribute.fallback))
    return value_or_fail(attribute, text, guess_value(text));
  if (std::holds_alternative<bool>(attribute.fallback)) return value_or_fail(attribute, text, parse_bool(text));
  if (std::holds_alternative<std::int64_t>(attribute.fallback))
    return value_or_fail(attribute, text, parse_integer(text));
  if (std::holds_alternative<double>(attribute.fallback))
    return value_or_fail(attribute, text, parse_number<double>(text));
  if (std::holds_alternative<DType>(attribute.fallback)) return parse_dtype(text);
  if (std::holds_alternative<std::vector<std::int64_t>>(attribute.fallback))
    return value_or_fail(attribute, text, parse_list(text));
  return std::string(text);
}

Attributes parse_attributes(const OpSpec& spec, std::span<const std::string> items) {
  Attributes attributes;
  for (const std::string& item : items) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0)
      throw_value_error(fmt::format("--attr '{}': expected name=value, like {}", item,
                                    spec.attributes.empty() ? "alpha=2" : spec.attributes.front().name + "=..."));
    const std::string name = item.substr(0, equals);
    const AttributeSpec* found = nullptr;
    std::vector<std::string> known;
    for (const AttributeSpec& attribute : spec.attributes) {
      known.push_back(attribute.name);
      if (attribute.name == name) found = &attribute;
    }
    if (!found) {
      if (known.empty())
        throw_value_error(fmt::format("op '{}' has no attributes, so --attr {} cannot be given", spec.name, item));
      throw_value_error(fmt::format("op '{}' has no attribute '{}'{}; it has {}", spec.name, name,
                                    did_you_mean(name, known), fmt::join(known, ", ")));
    }
    if (attributes.find(name)) throw_value_error(fmt::format("--attr {} is given twice", name));
    attributes.set(name, parse_attribute_value(*found, std::string_view(item).substr(equals + 1)));
  }
  return attributes;
}

}  // namespace kiln::cli
