#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/errors.hpp"

namespace kiln::test {

/// What the Error that `call` throws says; a failure of the test where it throws none.
template <typename Error, typename Call>
std::string error_message(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// What the UsageError that `call` throws says, with its kind in front: "value: ...".
template <typename Call>
std::string usage_error(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    constexpr const char* kKinds[] = {"value: ", "type: ", "not_implemented: "};
    return kKinds[static_cast<int>(error.kind())] + std::string(error.what());
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// What the UsageError that `call` throws says.
template <typename Call>
std::string usage_message(const Call& call) {
  return error_message<UsageError>(call);
}

/// The same, having checked its kind.
template <typename Call>
std::string usage_message(UsageError::Kind kind, const Call& call) {
  return usage_message([&] {
    try {
      call();
    } catch (const UsageError& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      throw;
    }
  });
}

template <typename Call>
std::string value_error(const Call& call) {
  return usage_message(UsageError::Kind::value, call);
}

/// The log of the CompileError that `call` throws.
template <typename Call>
std::string compile_log(const Call& call) {
  try {
    call();
  } catch (const CompileError& error) {
    return error.log();
  }
  ADD_FAILURE() << "it compiled";
  return {};
}

}  // namespace kiln::test
