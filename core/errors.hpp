#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace kiln {

/// Root of everything Kiln throws. The library never prints and never exits.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller's mistake, found before anything ran. `kind` selects the Python exception.
class UsageError : public Error {
 public:
  enum class Kind {
    value,            ///< a value, shape, name or file content is wrong (ValueError)
    type,             ///< a dtype, device or argument type is wrong (TypeError)
    not_implemented,  ///< legal, but no kernel or no target serves it (NotImplementedError)
  };
  UsageError(Kind kind, const std::string& message) : Error(message), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/// A kernel that does not compile. what() holds op, configuration, and the log with its source lines.
class CompileError : public Error {
 public:
  CompileError(std::string op, std::string configuration, std::string log)
      : Error("kernel of op '" + op + "' does not compile" + (configuration.empty() ? "" : " (" + configuration + ")") +
              ":\n" + log),
        op_(std::move(op)),
        configuration_(std::move(configuration)),
        log_(std::move(log)) {}
  const std::string& op() const noexcept { return op_; }
  const std::string& configuration() const noexcept { return configuration_; }
  const std::string& log() const noexcept { return log_; }

 private:
  std::string op_, configuration_, log_;
};

/// A driver call that failed, or a device or runtime library that is absent.
class DeviceError : public Error {
 public:
  DeviceError(std::string call, int code, std::string meaning)
      : Error(call + " failed" + (code != 0 ? " with code " + std::to_string(code) : std::string()) + ": " + meaning),
        call_(std::move(call)),
        code_(code),
        meaning_(std::move(meaning)) {}
  const std::string& call() const noexcept { return call_; }
  int code() const noexcept { return code_; }
  const std::string& meaning() const noexcept { return meaning_; }

 private:
  std::string call_;
  int code_;
  std::string meaning_;
};

/// A file system or operating system failure that could not be worked around.
class SystemError : public Error {
 public:
  using Error::Error;
};

/// Kiln's own fault: a broken invariant.
class InternalError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] inline void throw_value_error(const std::string& message) {
  throw UsageError(UsageError::Kind::value, message);
}
[[noreturn]] inline void throw_type_error(const std::string& message) {
  throw UsageError(UsageError::Kind::type, message);
}
[[noreturn]] inline void throw_not_implemented(const std::string& message) {
  throw UsageError(UsageError::Kind::not_implemented, message);
}

}  // namespace kiln
