#include "core/shape_key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/errors.hpp"

namespace kiln {
namespace {

using Item = ShapeKey::Item;
using Kind = Item::Kind;

std::int64_t next_power_of_two(std::int64_t extent) noexcept {
  constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  if (extent > kLargest) return std::numeric_limits<std::int64_t>::max();
  return extent <= 1 ? extent : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(extent)));
}

Item item_of(const ShapeKeyRule& rule, int input, int axis, const Dims& shape) noexcept {
  const std::int64_t extent = shape[axis];
  const auto names = [&](const ShapeKeyRule::Part& part) {
    return part.input.value_or(input) == input &&
           (!part.axis || *part.axis == axis || *part.axis + shape.size() == axis);
  };
  const auto part = std::find_if(rule.parts.rbegin(), rule.parts.rend(), names);
  if (part == rule.parts.rend() || extent <= part->exact_up_to) return {Kind::exact, extent};
  switch (part->bucket) {
    case ShapeKeyRule::Bucket::exact:
      break;
    case ShapeKeyRule::Bucket::power_of_two:
      return {Kind::at_most, next_power_of_two(extent)};
    case ShapeKeyRule::Bucket::any:
      return {Kind::any, 0};
  }
  return {Kind::exact, extent};
}

[[noreturn]] void refuse(std::string_view text, std::string_view part) {
  throw_value_error(fmt::format(
      "shape key '{}': '{}' is no shape; expected extents like 4096x<=1024x*, () for a scalar, - for no input", text,
      part));
}

Item parse_item(std::string_view token, std::string_view text) {
  if (token == "*") return {Kind::any, 0};
  Item item;
  std::string_view digits = token;
  if (digits.starts_with("<=")) {
    item.kind = Kind::at_most;
    digits.remove_prefix(2);
  }
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), item.extent);
  if (error != std::errc() || stop != digits.data() + digits.size() || item.extent < 0) refuse(text, token);
  return item;
}

}  // namespace

ShapeKey shape_key(std::span<const Dims* const> inputs, const ShapeKeyRule& rule) {
  ShapeKey key;
  std::size_t count = inputs.size();
  for (const Dims* shape : inputs)
    if (shape != nullptr) count += static_cast<std::size_t>(shape->size());
  key.items.reserve(count);
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    const Dims* shape = inputs[input];
    for (int axis = 0; shape != nullptr && axis < shape->size(); ++axis)
      key.items.push_back(item_of(rule, static_cast<int>(input), axis, *shape));
    key.items.push_back({shape == nullptr ? Kind::absent_input : Kind::end_of_input, 0});
  }
  return key;
}

std::string to_string(const ShapeKey& key) {
  std::string text;
  std::string input;
  for (const Item& item : key.items) {
    const char* const cross = input.empty() ? "" : "x";
    switch (item.kind) {
      case Kind::exact:
        input += fmt::format("{}{}", cross, item.extent);
        break;
      case Kind::at_most:
        input += fmt::format("{}<={}", cross, item.extent);
        break;
      case Kind::any:
        input += fmt::format("{}*", cross);
        break;
      case Kind::end_of_input:
      case Kind::absent_input:
        if (input.empty()) input = item.kind == Kind::absent_input ? "-" : "()";
        text += fmt::format("{}{}", text.empty() ? "" : ", ", input);
        input.clear();
        break;
    }
  }
  return text;
}

ShapeKey parse_shape_key(std::string_view text) {
  ShapeKey key;
  for (std::string_view rest = text; !text.empty();) {
    const std::size_t comma = rest.find(',');
    std::string_view input = rest.substr(0, comma);
    input.remove_prefix(std::min(input.find_first_not_of(' '), input.size()));
    input.remove_suffix(input.size() - (input.find_last_not_of(' ') + 1));
    if (input == "-") {
      key.items.push_back({Kind::absent_input, 0});
    } else {
      while (input != "()") {
        const std::size_t cross = input.find('x');
        key.items.push_back(parse_item(input.substr(0, cross), text));
        if (cross == std::string_view::npos) break;
        input.remove_prefix(cross + 1);
        if (input == "()") refuse(text, input);
      }
      key.items.push_back({Kind::end_of_input, 0});
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return key;
}

std::optional<double> shape_distance(const ShapeKey& a, const ShapeKey& b) noexcept {
  if (a.items.size() != b.items.size()) return std::nullopt;
  const auto is_sized = [](const Item& item) { return item.kind == Kind::exact || item.kind == Kind::at_most; };
  double distance = 0;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    const Item& left = a.items[i];
    const Item& right = b.items[i];
    if (is_sized(left) != is_sized(right) || (!is_sized(left) && left.kind != right.kind)) return std::nullopt;
    if (!is_sized(left)) continue;
    // An empty axis counts as one of a single element: there is no logarithm of 0.
    const auto size = [](const Item& item) { return static_cast<double>(std::max<std::int64_t>(item.extent, 1)); };
    distance += std::abs(std::log2(size(left) / size(right)));
  }
  return distance;
}

}  // namespace kiln
