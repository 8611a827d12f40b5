#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/errors.hpp"

namespace kiln::testing {

/// What the UsageError that `call` throws says, having checked its kind.
inline std::string message_of(UsageError::Kind kind, const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace kiln::testing
