#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/dtype.hpp"

namespace kiln {

/// monostate is Python's None (clamp without a minimum). Integers are int64_t wherever they fit, and uint64_t from 2^63
/// on, so that equal values are equal.
using AttributeValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, DType,
                                    std::vector<std::int64_t>, std::uint64_t>;

std::string to_string(const AttributeValue& value);
/// `value` as the alternative that holds it.
AttributeValue integer_value(std::uint64_t value);

/// Named attributes of one call, sorted by name.
class Attributes {
 public:
  using Entry = std::pair<std::string, AttributeValue>;
  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries);

  void set(std::string_view name, AttributeValue value);
  const AttributeValue* find(std::string_view name) const noexcept;
  /// InternalError when absent or of another type: specs call these only after validation filled defaults in.
  bool get_bool(std::string_view name) const;
  std::int64_t get_int(std::string_view name) const;
  std::uint64_t get_unsigned(std::string_view name) const;  ///< InternalError for a negative one too
  double get_double(std::string_view name) const;           ///< an integer or boolean value converts
  const std::string& get_string(std::string_view name) const;
  DType get_dtype(std::string_view name) const;
  bool is_none(std::string_view name) const;
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  bool empty() const noexcept { return entries_.empty(); }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace kiln
