#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kiln {

/// Where the config comes from of a call that gives none.
enum class TuningPolicy : std::uint8_t {
  off,        ///< the spec's default
  use,        ///< what was tuned for these very shapes, else the default
  nearest,    ///< else what was tuned for the closest shapes
  first_use,  ///< what was tuned for these very shapes; a call seen for the first time is tuned before it runs
};

/// "off", "use", "nearest", "first_use".
std::string_view to_string(TuningPolicy policy) noexcept;
/// The inverse. UsageError(value) that names the policies.
TuningPolicy parse_tuning_policy(std::string_view text);

/// The process's policy: what was set last, else KILN_TUNING, else `use`. UsageError(value) for a KILN_TUNING that is
/// no policy.
TuningPolicy tuning_policy();
void set_tuning_policy(TuningPolicy policy) noexcept;

/// Takes one line for each plan whose config was not the obvious one: taken from the nearest shapes, or tuned at first
/// use, or tuned and then found not to work. The library prints nothing itself. Called from the dispatching thread;
/// an empty function: nobody listens.
void set_tuning_log(std::function<void(const std::string& line)> log);

namespace detail {
void log_tuning(const std::string& line);
/// Grows with every change of what calls may have been planned with: plans of another generation are not used.
std::uint64_t tuning_generation() noexcept;
void forget_tuned_plans() noexcept;
}  // namespace detail

}  // namespace kiln
