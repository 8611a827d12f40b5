#pragma once

#include "autotune/database.hpp"

namespace kiln::cli {

/// What the registry and the devices of this machine make of a tuned choice: an EntryCheck.
EntryVerdict check_tuning_entry(const TuningEntry& entry);

}  // namespace kiln::cli
