#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view fallback;  ///< for people: what holds when it is unset
  std::string_view meaning;
};

/// Every variable Kiln reads, in one table; `kiln doctor` prints it. getenv appears nowhere else.
std::span<const EnvironmentVariable> environment_variables() noexcept;

/// InternalError for a name that is not in the table. An empty value counts as unset.
std::optional<std::string> environment(std::string_view name);
/// As above, parsed ("512", "2G", "64M" for sizes in bytes). UsageError(value) naming the variable for malformed text.
std::optional<std::int64_t> environment_bytes(std::string_view name);
std::optional<std::int64_t> environment_int(std::string_view name);
/// A finite number of seconds above 0.
std::optional<double> environment_seconds(std::string_view name);
std::optional<bool> environment_bool(std::string_view name);

}  // namespace kiln
