#include "ops/common/config_expression.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace kiln::common {
namespace {

std::int64_t checked(std::int64_t divisor, const std::string& text) {
  if (divisor == 0) throw InternalError(fmt::format("a constraint divides by {}, which is 0", text));
  return divisor;
}

template <typename Compare>
Constraint comparison(const ConfigExpression& a, const ConfigExpression& b, const char* sign, Compare compare) {
  return {fmt::format("{} {} {}", a.text(), sign, b.text()),
          [a, b, compare](const Config& config) { return compare(a(config), b(config)); }};
}

}  // namespace

ConfigExpression::ConfigExpression(std::int64_t constant)
    : ConfigExpression(fmt::format("{}", constant), [constant](const Config&) { return constant; }, kAtom) {}

ConfigExpression::ConfigExpression(const char* tunable)
    : ConfigExpression(
          tunable, [name = std::string(tunable)](const Config& config) { return config.at(name); }, kAtom) {}

std::string ConfigExpression::operand(int binding) const {
  return binding_ < binding ? fmt::format("({})", text_) : text_;
}

template <typename Operation>
ConfigExpression ConfigExpression::joined(const ConfigExpression& a, const ConfigExpression& b, const char* sign,
                                          int binding, const Operation& operation) {
  // Of operators that bind alike the left one goes first, so the right operand of the same kind keeps its parentheses.
  return {fmt::format("{} {} {}", a.operand(binding), sign, b.operand(binding + 1)),
          [a, b, operation](const Config& config) { return operation(a(config), b(config)); }, binding};
}

ConfigExpression operator+(const ConfigExpression& a, const ConfigExpression& b) {
  return ConfigExpression::joined(a, b, "+", ConfigExpression::kSum, [](auto x, auto y) { return x + y; });
}

ConfigExpression operator*(const ConfigExpression& a, const ConfigExpression& b) {
  return ConfigExpression::joined(a, b, "*", ConfigExpression::kProduct, [](auto x, auto y) { return x * y; });
}

ConfigExpression operator/(const ConfigExpression& a, const ConfigExpression& b) {
  return ConfigExpression::joined(a, b, "/", ConfigExpression::kProduct,
                                  [text = b.text()](auto x, auto y) { return x / checked(y, text); });
}

ConfigExpression operator%(const ConfigExpression& a, const ConfigExpression& b) {
  return ConfigExpression::joined(a, b, "%", ConfigExpression::kProduct,
                                  [text = b.text()](auto x, auto y) { return x % checked(y, text); });
}

ConfigExpression choose(const Constraint& condition, const ConfigExpression& yes, const ConfigExpression& no) {
  return {fmt::format("({} ? {} : {})", condition.text, yes.text(), no.text()),
          [condition, yes, no](const Config& config) { return condition.holds(config) ? yes(config) : no(config); }};
}

Constraint operator<=(const ConfigExpression& a, const ConfigExpression& b) {
  return comparison(a, b, "<=", [](auto x, auto y) { return x <= y; });
}

Constraint operator>=(const ConfigExpression& a, const ConfigExpression& b) {
  return comparison(a, b, ">=", [](auto x, auto y) { return x >= y; });
}

Constraint operator==(const ConfigExpression& a, const ConfigExpression& b) {
  return comparison(a, b, "==", [](auto x, auto y) { return x == y; });
}

Constraint between(const ConfigExpression& low, const ConfigExpression& value, const ConfigExpression& high) {
  return {fmt::format("{} <= {} <= {}", low.text(), value.text(), high.text()), [=](const Config& config) {
            const std::int64_t held = value(config);
            return low(config) <= held && held <= high(config);
          }};
}

Constraint both(const Constraint& a, const Constraint& b) {
  return {fmt::format("({}) and ({})", a.text, b.text),
          [a, b](const Config& config) { return a.holds(config) && b.holds(config); }};
}

Constraint either(const Constraint& a, const Constraint& b) {
  return {fmt::format("({}) or ({})", a.text, b.text),
          [a, b](const Config& config) { return a.holds(config) || b.holds(config); }};
}

}  // namespace kiln::common
