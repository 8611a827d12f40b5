#pragma once

#include <optional>
#include <string>

#include "autotune/tuning_entry.hpp"

namespace kiln {

/// Which of two entries of one key rests on better evidence.
struct Preference {
  bool second = false;
  std::string reason;  ///< "more configs measured (96 against 12)"; empty when there is nothing to choose between them
};

/// The first of these that differs decides: the newer driver, the newer compiler (times of replaced software no longer
/// hold), more configs measured, the tighter interval of the winner, the later date, and last the winner's text. This
/// is a total order, so that files merged in any order give the same entry.
Preference better_evidence(const TuningEntry& first, const TuningEntry& second);

/// The measurements of both, each once, oldest first, the last kHistoryLength.
std::vector<PastMeasurement> merge_histories(const TuningEntry& first, const TuningEntry& second);
/// Adds to an entry's history what it says of its winner itself, unless that is there.
void add_own_measurement(TuningEntry& entry);

/// Times that moved by more than noise from one tuning to the next.
struct Drift {
  Config config;
  double before_us = 0;  ///< median over the earlier measurements' medians
  double now_us = 0;
  std::string text;  ///< one line for people
};
/// Whether the config that `earlier` chose now takes another time, measured under the same policy: its interval and
/// those of its history have nothing in common, and the medians differ by more than kDriftFloor. nullopt also when
/// `later` did not measure it, or is not later.
std::optional<Drift> drift_between(const TuningEntry& earlier, const TuningEntry& later);
inline constexpr double kDriftFloor = 0.02;

}  // namespace kiln
