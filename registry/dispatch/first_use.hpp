#pragma once

#include "registry/plan/call.hpp"
#include "registry/plan/tuning_policy.hpp"

namespace kiln {

/// A call that no plan was made for yet.
struct FirstUse {
  const Call& call;
  const Target& target;
  TuningPolicy tuning;
  bool is_config_given;
};

/// What the floors above do with a call before its plan is made: they tune it and add it to the trace, where that is
/// asked for. The dispatcher knows only this of them; registry/wiring.cpp has the body. UsageError(value) for
/// environment variables that say nothing that can be done.
void prepare_first_use(const FirstUse& use);

}  // namespace kiln
