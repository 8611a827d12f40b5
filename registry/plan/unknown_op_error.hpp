#pragma once

#include <string>
#include <utility>

#include "core/errors.hpp"

namespace kiln {

/// A name that no op has. Python raises it as both a NotImplementedError and a ValueError: for one caller the name is
/// wrong, for another the op is missing.
class UnknownOpError : public UsageError {
 public:
  UnknownOpError(std::string op, const std::string& message) : UsageError(Kind::value, message), op_(std::move(op)) {}
  const std::string& op() const noexcept { return op_; }  ///< the name, as it was given

 private:
  std::string op_;
};

}  // namespace kiln
