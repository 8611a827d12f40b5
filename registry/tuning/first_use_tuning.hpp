#pragma once

#include "registry/plan/call.hpp"

namespace kiln {

/// For TuningPolicy::first_use: tunes a call within `budget_s` unless the database has it. What goes wrong is logged,
/// and the call goes on with the default. Throws only where it is interrupted (core/interruption.hpp).
void tune_at_first_use(const Call& call, const Target& target, double budget_s);
/// KILN_TUNING_BUDGET, or what holds when it is unset. UsageError(value) for text that is no time.
double first_use_budget_s();

}  // namespace kiln
