#pragma once

#include <string>

#include "core/errors.hpp"

namespace kiln::cli {

/// The content of an input file is wrong while the command line is right: exit status 1, where other UsageErrors
/// give 2.
class InputFileError : public UsageError {
 public:
  explicit InputFileError(const std::string& message) : UsageError(Kind::value, message) {}
};

}  // namespace kiln::cli
