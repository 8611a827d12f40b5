#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autotune/entry_set.hpp"
#include "autotune/tuning_entry.hpp"

/// Entries of the tuning database as `kiln cache` shows them.
namespace kiln::cli {

/// What names an entry and what was chosen; with `evidence` also every config tried and the history.
nlohmann::ordered_json entry_json(const TuningEntry& entry, bool evidence);
nlohmann::ordered_json outcome_json(const MergeOutcome& outcome);

/// A row for format_table, under entry_header().
std::vector<std::string> entry_row(const TuningEntry& entry);
std::vector<std::string> entry_header();

/// An entry in full, for people: the best ten configs, and the history.
std::string entry_text(const TuningEntry& entry);
/// One line per entry, with both choices where two met, and drifts.
std::string outcomes_text(const std::vector<MergeOutcome>& outcomes);

}  // namespace kiln::cli
