#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/sample_set.hpp"
#include "core/config.hpp"

namespace kiln {

/// What became of one candidate.
enum class Outcome {
  untried,     ///< the search ended before its turn, or had no reason to try it
  measured,    ///< in the race to the end of its strategy
  cut,         ///< measured until it was clearly slower than the best
  ruled_out,   ///< not measured: too large for the device, or slower than the best even at the roofline
  uncompiled,  ///< does not compile
  unlaunched,  ///< does not launch, or its launch failed
  mismatched,  ///< its output differs from the default's
  hung,        ///< did not return in time
};

/// "measured", "cut", ...: how files and reports spell an outcome.
std::string_view to_string(Outcome outcome);
/// The inverse. UsageError(value) for another text.
Outcome parse_outcome(std::string_view text);
/// It was tried and can never be chosen.
bool is_failure(Outcome outcome) noexcept;

/// What is known of one candidate. Times are of the machine as it was in the middle of the tuning: every sample is put
/// in proportion to the default's samples just before and after it, so that a clock that drifts moves them all alike.
struct CandidateEvidence {
  Config config;
  Outcome outcome = Outcome::untried;
  std::string reason;       ///< why it was cut or ruled out, or how it failed
  int rank = 0;             ///< by median, from 1, those of the playoff first; 0 for those without a time
  double median_us = 0;     ///< 0 when it has no samples
  Interval interval_us;     ///< 95%, of the median; up to infinity for fewer than kFewestForInterval samples
  Interval relative;        ///< the same over the default's median: 0.8 takes a fifth less time
  int samples = 0;          ///< those that count
  int warm_up_samples = 0;  ///< those before its times were stable
  Outliers outliers;
};

/// How a tuning ended: the choice, and everything it rests on.
struct TuningResult {
  std::size_t chosen = 0;  ///< index into `candidates`; the default's when nothing beat it
  std::size_t default_index = 0;
  bool ended = false;              ///< the strategy came to its end; false after a stop or the end of the budget
  bool complete = false;           ///< it did, and has left out nothing that a longer search would look at
  std::string verdict;             ///< one sentence for people: why this one
  Interval chosen_relative{1, 1};  ///< the chosen candidate's time over the default's, measured side by side
  double reference_drift = 0;      ///< how far the default's times moved over the tuning: 0.03 is 3% from least to most
  int samples = 0;                 ///< of all candidates
  std::vector<CandidateEvidence> candidates;  ///< in the order of the space
};

}  // namespace kiln
