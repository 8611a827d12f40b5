#include "registry/tuning/first_use_tuning.hpp"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <set>
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

/// Keys that need not be tuned again in this process, under the tuning mutex: what could not be tuned, or is tuned
/// under the key of dense outputs, must not be tuned at every call.
std::set<std::string>& attempted() {
  static auto* const keys = new std::set<std::string>;
  return *keys;
}

/// The interrupt of a tuning passes through, and leaves nothing behind: what was measured until then would pass for a
/// choice for ever.
void tune_once(const Call& call, const Target& target, double budget_s) {
  const Choice choice = choose(call, target, nullptr);
  const TuningKey key = tuning_key(call, *choice.variant, target);
  const auto [attempt, is_new] = attempted().insert(hash_of(key).hex());
  if (!is_new || TuningDatabase::process().find(key) != nullptr) return;
  TuneOptions options;
  options.budget_s = budget_s;
  options.progress = [](const TuningProgress&) { check_interrupt(); };
  const InterruptWitness witness;
  try {
    const TuneReport report = detail::tune_call(call, target, options);
    detail::log_tuning(fmt::format("op '{}' was tuned at its first use in {:.2f} s: {}", call.spec->name,
                                   report.elapsed_s, report.result.verdict));
  } catch (...) {
    if (witness.has_seen_one()) attempted().erase(attempt);
    throw;
  }
}

}  // namespace

double first_use_budget_s() {
  return environment_seconds("KILN_TUNING_BUDGET").value_or(kBudgetSeconds);
}

void tune_at_first_use(const Call& call, const Target& target, double budget_s) {
  const InterruptWitness witness;
  try {
    detail::refuse_tuning_in_capture(call);
    const std::lock_guard lock(
        detail::tuning_mutex());  // of several threads that make one call, the first one tunes it
    const TuningScope scope;
    tune_once(call, target, budget_s);
  } catch (const std::exception& error) {
    if (witness.has_seen_one()) throw;
    detail::log_tuning(fmt::format("op '{}' could not be tuned at its first use: {}", call.spec->name, error.what()));
  }
}

}  // namespace kiln
