#include "registry/tuning/hung_candidate.hpp"

#include "autotune/database.hpp"

namespace kiln::detail {

void report_hung(const TuneOptions& options, const TuningResult& result, const TuningEntry& entry) {
  if (options.record && !is_failure(result.candidates[result.default_index].outcome))
    TuningDatabase::process().record({entry}, EntrySet::Conflict::offered_wins);
  if (options.hung) options.hung(entry);
}

}  // namespace kiln::detail
