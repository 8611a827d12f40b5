#include "core/parameter_expression.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

namespace kiln {
namespace {

std::int64_t cut(std::int64_t value, std::string_view type) {
  if (type == "s32") return static_cast<std::int32_t>(value);
  if (type == "u32") return static_cast<std::uint32_t>(value);
  return value;
}

std::optional<std::int64_t> read_parameter(std::string_view token, const ParameterExpression::Parameter& parameter) {
  int index = 0;
  const char* const end = token.data() + token.size();
  const auto [dot, error] = std::from_chars(token.data() + 1, end, index);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const std::string_view type(dot + 1, static_cast<std::size_t>(end - dot - 1));
  if (type != "s32" && type != "u32" && type != "s64") return std::nullopt;
  const std::span<const std::byte> bytes = parameter(index);
  const std::size_t size = type == "s64" ? 8 : 4;
  if (bytes.size() < size) return std::nullopt;
  std::int64_t value = 0;
  std::memcpy(&value, bytes.data(), size);
  return cut(value, type);
}

std::optional<std::int64_t> combine(std::string_view operation, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  if (operation == "+") return number(x + y);
  if (operation == "-") return number(x - y);
  if (operation == "*") return number(x * y);
  if (operation == "&") return number(x & y);
  if (operation == "|") return number(x | y);
  if (operation == "^") return number(x ^ y);
  if (operation == "min") return std::min(a, b);
  if (operation == "max") return std::max(a, b);
  if (operation == "<<" && y < 64) return number(x << y);
  if (operation == ">>" && y < 64) return a >> b;
  const bool divides = b > 0 && a >= 0;
  if (operation == "/" && divides) return a / b;
  if (operation == "%" && divides) return a % b;
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> ParameterExpression::evaluate(const Parameter& parameter) const {
  std::vector<std::int64_t> values;
  for (std::size_t at = 0; at < text_.size();) {
    const std::size_t end = std::min(text_.find(' ', at), text_.size());
    const std::string_view token = std::string_view(text_).substr(at, end - at);
    at = end + 1;
    std::optional<std::int64_t> value;
    std::int64_t number = 0;
    if (const auto [last, error] = std::from_chars(token.data(), token.data() + token.size(), number);
        error == std::errc() && last == token.data() + token.size()) {
      value = number;
    } else if (token.starts_with('p')) {
      value = read_parameter(token, parameter);
    } else if ((token == "s32" || token == "u32") && !values.empty()) {
      value = cut(values.back(), token);
      values.pop_back();
    } else if (values.size() >= 2) {
      value = combine(token, values[values.size() - 2], values.back());
      values.resize(values.size() - 2);
    }
    if (!value.has_value()) return std::nullopt;
    values.push_back(*value);
  }
  if (values.size() != 1) return std::nullopt;
  return values.front();
}

}  // namespace kiln
