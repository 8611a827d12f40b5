#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// A whole number that follows from a kernel's parameters, as text in postfix order, so that it can be stored and read:
/// "p4.s64 2 *" is twice parameter 4. Tokens: a number; `pI.T`, parameter I read as T (s32, u32, s64); `+ - * / % << >>
/// & | ^ min max` of the two numbers before, in 64 bits, which wrap; `s32` and `u32`, which cut the number before to
/// 32.
class ParameterExpression {
 public:
  ParameterExpression() = default;
  explicit ParameterExpression(std::string text) : text_(std::move(text)) {}

  const std::string& text() const noexcept { return text_; }
  /// `parameter(i)` gives the bytes of parameter i, none for one that is not known. nullopt where one of these is
  /// needed, and for text that is no such expression.
  using Parameter = std::function<std::span<const std::byte>(int index)>;
  std::optional<std::int64_t> evaluate(const Parameter& parameter) const;
  friend bool operator==(const ParameterExpression&, const ParameterExpression&) = default;

 private:
  std::string text_;
};

}  // namespace kiln
