#pragma once

#include "autotune/evidence.hpp"
#include "autotune/tuning_entry.hpp"
#include "registry/tuning/tune_options.hpp"

namespace kiln::detail {

/// What a tuning does while a candidate does not return, on the watchdog's thread: keeps what is known, and tells
/// `options.hung`. Where it is the default that hangs there is no choice to keep.
void report_hung(const TuneOptions& options, const TuningResult& result, const TuningEntry& entry);

}  // namespace kiln::detail
