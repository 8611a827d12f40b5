#include "registry/dispatch/first_use.hpp"
#include "registry/tuning/call_trace.hpp"
#include "registry/tuning/first_use_tuning.hpp"

namespace kiln {

// The one place where a lower floor reaches one above it. The linker joins the two, so that a program that only
// dispatches is tuned and traced too. A pointer that tuning sets was the alternative: either somebody has to call
// tuning first, or an object of its own does so at the program's start, which a static link may drop.
// The profiler needs none of this, for it is asked for by name and says so then (set_observation).
void prepare_first_use(const FirstUse& use) {
  const double budget_s = first_use_budget_s();  // a malformed one is refused whether it is asked for or not
  if (use.is_config_given || use.tuning == TuningPolicy::off) return;
  if (use.tuning == TuningPolicy::first_use) tune_at_first_use(use.call, use.target, budget_s);
  trace_call(use.call);
}

}  // namespace kiln
