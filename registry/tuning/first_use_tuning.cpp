#include "registry/tuning/first_use_tuning.hpp"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

#include "autotune/database.hpp"
#include "core/environment.hpp"
#include "core/interruption.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/plan/tuning_policy.hpp"
#include "registry/plan/tuning_scope.hpp"
#include "registry/tuning/op_tuning.hpp"

namespace kiln {
namespace {

constexpr double kBudgetSeconds = 2;

}  // namespace

double first_use_budget_s() {
  return environment_seconds("KILN_TUNING_BUDGET").value_or(kBudgetSeconds);
}

void tune_at_first_use(const Call& call, const Target& target, double budget_s) {
  std::exception_ptr interrupt;
  try {
    detail::refuse_tuning_in_capture(call);
    const std::lock_guard lock(
        detail::tuning_mutex());  // of several threads that make one call, the first one tunes it
    const TuningScope scope;
    const Choice choice = choose(call, target, nullptr);
    const TuningKey key = tuning_key(call, *choice.variant, target);
    // Once: what could not be tuned, or is tuned under the key of dense outputs, must not be tuned at every call.
    static auto* const attempted = new std::set<std::string>;
    if (!attempted->insert(hash_of(key).hex()).second || TuningDatabase::process().find(key) != nullptr) return;
    TuneOptions options;
    options.budget_s = budget_s;
    std::stop_source stop;
    options.stop = stop.get_token();
    options.progress = [&](const TuningProgress&) {
      try {
        check_interrupt();
      } catch (...) {
        interrupt = std::current_exception();
        stop.request_stop();
      }
    };
    const TuneReport report = detail::tune_call(call, target, options);
    detail::log_tuning(fmt::format("op '{}' was tuned at its first use in {:.2f} s: {}", call.spec->name,
                                   report.elapsed_s, report.result.verdict));
  } catch (const std::exception& error) {
    detail::log_tuning(fmt::format("op '{}' could not be tuned at its first use: {}", call.spec->name, error.what()));
  }
  if (interrupt) std::rethrow_exception(interrupt);
}

}  // namespace kiln
