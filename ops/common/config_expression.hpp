#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "core/config.hpp"

namespace kiln::common {

/// A whole number that a config gives: a tunable, a constant, or what is computed of them. Comparing two makes a
/// Constraint, which is checked, printed and hashed as that one expression:
///
///     const ConfigExpression block("BLOCK_SIZE"), warps("num_warps");
///     ConfigSpace space(tunables, {block >= 32 * warps});  // "BLOCK_SIZE >= 32 * num_warps"
class ConfigExpression {
 public:
  using Value = std::function<std::int64_t(const Config&)>;
  ConfigExpression(std::int64_t constant);
  ConfigExpression(int constant) : ConfigExpression(std::int64_t{constant}) {}
  /// The tunable of this name.
  ConfigExpression(const char* tunable);
  /// What no operator computes, under a name of its own.
  ConfigExpression(std::string text, Value value) : ConfigExpression(std::move(text), std::move(value), kAtom) {}

  std::int64_t operator()(const Config& config) const { return value_(config); }
  const std::string& text() const noexcept { return text_; }

  friend ConfigExpression operator+(const ConfigExpression& a, const ConfigExpression& b);
  friend ConfigExpression operator*(const ConfigExpression& a, const ConfigExpression& b);
  /// Towards zero; InternalError for a divisor of 0, as of %.
  friend ConfigExpression operator/(const ConfigExpression& a, const ConfigExpression& b);
  friend ConfigExpression operator%(const ConfigExpression& a, const ConfigExpression& b);

 private:
  static constexpr int kSum = 0, kProduct = 1, kAtom = 2;  // how tightly operators bind
  ConfigExpression(std::string text, Value value, int binding)
      : text_(std::move(text)), value_(std::move(value)), binding_(binding) {}
  template <typename Operation>
  static ConfigExpression joined(const ConfigExpression& a, const ConfigExpression& b, const char* sign, int binding,
                                 const Operation& operation);
  /// In parentheses where an operator that binds as tightly as `binding` would take it apart.
  std::string operand(int binding) const;

  std::string text_;
  Value value_;
  int binding_;
};

/// `yes` where the condition holds, else `no`.
ConfigExpression choose(const Constraint& condition, const ConfigExpression& yes, const ConfigExpression& no);

Constraint operator<=(const ConfigExpression& a, const ConfigExpression& b);
Constraint operator>=(const ConfigExpression& a, const ConfigExpression& b);
Constraint operator==(const ConfigExpression& a, const ConfigExpression& b);
/// low <= value <= high.
Constraint between(const ConfigExpression& low, const ConfigExpression& value, const ConfigExpression& high);
/// "(a) and (b)", "(a) or (b)".
Constraint both(const Constraint& a, const Constraint& b);
Constraint either(const Constraint& a, const Constraint& b);

}  // namespace kiln::common
