#pragma once

#include <optional>

#include "registry/plan/call.hpp"
#include "registry/tuning/tuning.hpp"

namespace kiln::cli {

/// What a search of less than a day ago that went through to its end found out about a call: where many calls are
/// tuned and the tuning was interrupted, it goes on behind those. nullopt where there is none, and for one that was
/// measured in another way. A report of an earlier tuning has a verdict that says so, and took no time.
std::optional<TuneReport> earlier_tuning(const Call& call, const MeasuringPolicy& policy);

}  // namespace kiln::cli
