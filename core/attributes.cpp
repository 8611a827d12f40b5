#include "core/attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/errors.hpp"

namespace kiln {
namespace {

/// Shortest text that reads back as the same double, and never as an integer.
std::string spell_double(double value) {
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct Spell {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(std::uint64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return spell_double(value); }
  std::string operator()(const std::string& value) const { return "'" + value + "'"; }
  std::string operator()(DType value) const { return std::string(name(value)); }
  std::string operator()(const std::vector<std::int64_t>& value) const {
    return fmt::format("[{}]", fmt::join(value, ", "));
  }
};

const AttributeValue& required(const Attributes& attributes, std::string_view name) {
  const AttributeValue* value = attributes.find(name);
  if (value == nullptr) throw InternalError(fmt::format("attribute '{}' is absent", name));
  return *value;
}

[[noreturn]] void wrong_type(std::string_view name, const AttributeValue& value, std::string_view expected) {
  throw InternalError(fmt::format("attribute '{}' is {}, which is not {}", name, to_string(value), expected));
}

template <typename T>
const T& get(const Attributes& attributes, std::string_view name, std::string_view expected) {
  const AttributeValue& value = required(attributes, name);
  if (const T* held = std::get_if<T>(&value)) return *held;
  wrong_type(name, value, expected);
}

}  // namespace

std::string to_string(const AttributeValue& value) {
  return std::visit(Spell{}, value);
}

AttributeValue integer_value(std::uint64_t value) {
  if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
  return value;
}

Attributes::Attributes(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) {
    if (find(entry.first) != nullptr) throw_value_error(fmt::format("attribute '{}' is given twice", entry.first));
    set(entry.first, entry.second);
  }
}

void Attributes::set(std::string_view name, AttributeValue value) {
  if (const auto* integer = std::get_if<std::uint64_t>(&value)) value = integer_value(*integer);
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), name,
                                      [](const Entry& entry, std::string_view wanted) { return entry.first < wanted; });
  if (place != entries_.end() && place->first == name) {
    place->second = std::move(value);
  } else {
    entries_.emplace(place, std::string(name), std::move(value));
  }
}

const AttributeValue* Attributes::find(std::string_view name) const noexcept {
  for (const Entry& entry : entries_)
    if (entry.first == name) return &entry.second;
  return nullptr;
}

bool Attributes::get_bool(std::string_view name) const {
  return get<bool>(*this, name, "a boolean");
}

std::int64_t Attributes::get_int(std::string_view name) const {
  return get<std::int64_t>(*this, name, "an integer");
}

std::uint64_t Attributes::get_unsigned(std::string_view name) const {
  const AttributeValue& value = required(*this, name);
  if (const auto* held = std::get_if<std::uint64_t>(&value)) return *held;
  if (const auto* held = std::get_if<std::int64_t>(&value); held != nullptr && *held >= 0)
    return static_cast<std::uint64_t>(*held);
  wrong_type(name, value, "an integer of 0 or more");
}

double Attributes::get_double(std::string_view name) const {
  const AttributeValue& value = required(*this, name);
  if (const double* held = std::get_if<double>(&value)) return *held;
  if (const std::int64_t* held = std::get_if<std::int64_t>(&value)) return static_cast<double>(*held);
  if (const std::uint64_t* held = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*held);
  if (const bool* held = std::get_if<bool>(&value)) return *held ? 1.0 : 0.0;
  wrong_type(name, value, "a number");
}

const std::string& Attributes::get_string(std::string_view name) const {
  return get<std::string>(*this, name, "a string");
}

DType Attributes::get_dtype(std::string_view name) const {
  return get<DType>(*this, name, "a dtype");
}

bool Attributes::is_none(std::string_view name) const {
  return std::holds_alternative<std::monostate>(required(*this, name));
}

}  // namespace kiln
