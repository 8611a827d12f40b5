#include "cli/sweep_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "cli/attribute_text.hpp"
#include "cli/sweep_range.hpp"
#include "core/errors.hpp"
#include "registry/plan/call.hpp"

namespace kiln::cli {
namespace {

constexpr const char* kUsualVariable = "N";

/// Calls `piece(text, is_word)` for the words of letters, digits and '_' that a small 'x' does not join, and for all
/// that lies between them.
void split(const std::string& text, const std::function<void(const std::string&, bool)>& piece) {
  const auto is_part = [](char letter) {
    return (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') || letter == '_';
  };
  for (std::size_t start = 0; start < text.size();) {
    std::size_t end = start;
    const bool is_word = is_part(text[start]);
    while (end < text.size() && is_part(text[end]) == is_word) ++end;
    piece(text.substr(start, end - start), is_word);
    start = end;
  }
}

std::string replace_word(const std::string& text, const std::string& word, const std::string& by) {
  std::string result;
  split(text, [&](const std::string& piece, bool is_word) { result += is_word && piece == word ? by : piece; });
  return result;
}

/// The part of "name=value" that may name the variable.
std::string replace_in_attribute(const std::string& item, const std::string& word, const std::string& by) {
  const std::size_t equals = item.find('=');
  if (equals == std::string::npos) return item;
  return item.substr(0, equals + 1) + replace_word(item.substr(equals + 1), word, by);
}

std::set<std::string> variables_in(const std::vector<std::string>& shapes) {
  std::set<std::string> variables;
  for (const std::string& shape : shapes)
    split(shape, [&](const std::string& piece, bool is_word) {
      if (is_word && is_sweep_variable(piece)) variables.insert(piece);
    });
  return variables;
}

bool names_variable(const CallText& call, const std::string& variable) {
  return variables_in(call.shapes).contains(variable) ||
         std::any_of(call.attributes.begin(), call.attributes.end(),
                     [&](const std::string& item) { return replace_in_attribute(item, variable, "") != item; });
}

/// What a call moves; a number that says nothing for an op without a cost. UsageError where there is no such call.
double bytes_moved(const OpSpec& spec, const CallText& call) {
  const Attributes attributes = parse_attributes(spec, call.attributes);
  const Device cpu = Device::cpu();
  const Call made =
      validated_call(spec, placeholder_views(input_metas(spec, call, attributes), cpu), attributes, {.seen_on = cpu});
  return spec.cost ? spec.cost(made.seen_by_spec()).bytes : 0;
}

/// Whether the op takes the pattern, and has more to do where the letter is larger.
bool is_taken(const OpSpec& spec, const SweepPattern& pattern) {
  constexpr std::int64_t kSmall = 64, kLarge = 128;  // two sizes, since one may fit by chance
  constexpr double kLeastGrowth = 1.5;
  try {
    const double small_bytes = bytes_moved(spec, pattern.at(kSmall));
    return bytes_moved(spec, pattern.at(kLarge)) >= kLeastGrowth * small_bytes;
  } catch (const UsageError&) {
    return false;
  }
}

std::vector<std::string> attribute_items(const Example& example) {
  std::vector<std::string> items;
  for (const Attributes::Entry& entry : example.attributes.entries()) items.push_back(attribute_option(entry));
  return items;
}

/// An example's shapes with the variable in place of extents that `is_open(input, axis)` names.
std::vector<std::string> open_shapes(const Example& example, const std::string& variable,
                                     const std::function<bool(std::size_t, int)>& is_open) {
  std::vector<std::string> shapes;
  for (std::size_t input = 0; input < example.inputs.size(); ++input) {
    const Dims& shape = example.inputs[input].shape;
    std::vector<std::string> extents;
    for (int axis = 0; axis < shape.size(); ++axis)
      extents.push_back(is_open(input, axis) ? variable : std::to_string(shape[axis]));
    shapes.push_back(extents.empty() ? "scalar" : fmt::format("{}", fmt::join(extents, "x")));
  }
  return shapes;
}

/// Whether the op treats each element alike, so that one row of them says all.
bool is_pointwise(const OpSpec& spec) {
  const bool has_dim = std::any_of(spec.attributes.begin(), spec.attributes.end(),
                                   [](const AttributeSpec& attribute) { return attribute.name == "dim"; });
  const auto ranks_agree = [](const Example& example) {
    return std::all_of(example.inputs.begin(), example.inputs.end(), [&](const TensorMeta& input) {
      return input.shape.size() == example.inputs.front().shape.size();
    });
  };
  return spec.aliasing == Aliasing::elementwise && !has_dim && !spec.examples.empty() &&
         ranks_agree(spec.examples.front());
}

std::optional<SweepPattern> pattern_of_op(const OpSpec& spec, const CallText& given, const std::string& variable) {
  SweepPattern pattern{given, variable};
  const std::string row = variable + "x4096", square = variable + "x" + variable;
  std::vector<std::vector<std::string>> usual{{row}, {square}, {row, "4096"}, {variable}};
  if (is_pointwise(spec)) usual.insert(usual.begin(), {variable});
  const Example* const example = spec.examples.empty() ? nullptr : &spec.examples.front();
  for (const std::vector<std::string>& shapes : usual) {
    pattern.call.shapes = shapes;
    pattern.call.attributes = given.attributes;
    if (is_taken(spec, pattern)) return pattern;
    if (example == nullptr || !given.attributes.empty()) continue;
    pattern.call.attributes = attribute_items(*example);
    if (is_taken(spec, pattern)) return pattern;
  }
  for (const Example& own : spec.examples) {
    if (own.inputs.empty() || own.inputs.front().shape.empty()) continue;
    const std::int64_t first = own.inputs.front().shape[0];
    if (given.attributes.empty()) pattern.call.attributes = attribute_items(own);
    if (given.dtypes.empty()) {
      pattern.call.dtypes.clear();
      for (const TensorMeta& input : own.inputs) pattern.call.dtypes.emplace_back(name(input.dtype));
    }
    std::vector<std::function<bool(std::size_t, int)>> strategies{
        // A cache grows with the tokens that go into it, a table with the indices that look there.
        [](std::size_t, int axis) { return axis == 0; },
        [&](std::size_t input, int axis) { return axis == 0 && own.inputs[input].shape[0] == first; },
        [&](std::size_t input, int axis) { return own.inputs[input].shape[axis] == first; }};
    for (std::size_t only = 0; only < own.inputs.size(); ++only)
      strategies.emplace_back([=](std::size_t input, int axis) { return input == only && axis == 0; });
    for (const auto& is_open : strategies) {
      pattern.call.shapes = open_shapes(own, variable, is_open);
      if (is_taken(spec, pattern)) return pattern;
    }
  }
  return std::nullopt;
}

}  // namespace

CallText SweepPattern::at(std::int64_t value) const {
  CallText result = call;
  const std::string number = std::to_string(value);
  for (std::string& shape : result.shapes) shape = replace_word(shape, variable, number);
  for (std::string& item : result.attributes) item = replace_in_attribute(item, variable, number);
  return result;
}

SweepPattern sweep_pattern(const OpSpec& spec, const CallText& call, const std::string& variable) {
  const std::set<std::string> letters = variables_in(call.shapes);
  if (letters.size() > 1)
    throw_value_error(
        fmt::format("--shape has the letters {}, and one extent grows in a sweep; write numbers for the "
                    "others",
                    fmt::join(letters, " and ")));
  const std::string wanted = !variable.empty() ? variable : letters.empty() ? kUsualVariable : *letters.begin();
  if (names_variable(call, wanted)) return {call, wanted};
  if (!call.shapes.empty() || !letters.empty() || spec.inputs.empty())
    throw_value_error(fmt::format(
        "--sweep needs an extent that grows: write {} in its place, like {}", wanted,
        spec.inputs.empty() ? fmt::format("--attr size={}", wanted) : fmt::format("--shape {}x4096", wanted)));
  if (const std::optional<SweepPattern> pattern = pattern_of_op(spec, call, wanted)) return *pattern;
  throw_value_error(
      fmt::format("op '{}' has no usual sizes: say which extent grows, like --shape {}x4096 --sweep "
                  "{}=1:64K",
                  spec.name, wanted, wanted));
}

std::string to_string(const SweepPattern& pattern) {
  std::string text;
  const auto add = [&](const char* option, const std::vector<std::string>& values) {
    for (const std::string& value : values) text += fmt::format("{}{} {}", text.empty() ? "" : " ", option, value);
  };
  add("--shape", pattern.call.shapes);
  add("--dtype", pattern.call.dtypes);
  add("--attr", pattern.call.attributes);
  return text;
}

}  // namespace kiln::cli
