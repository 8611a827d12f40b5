#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotune/sample_set.hpp"
#include "autotune/warm_up.hpp"

namespace kiln {

struct PlayoffOptions {
  /// Of the search before: how exactly its finalists are known.
  Precision precision;
  /// How exactly what decides must be known: the fastest finalist's time over the default's and over those that may tie
  /// with it. 0.5 us, enough to screen, is a twelfth of a small product.
  Precision deciding = {.share = 0.005, .time_us = 0.05};
  /// What a candidate must save at least, beyond its interval, to replace the default.
  double least_gain = 0.005;
  /// More of it where the default's own time moved during the search: each 1% asks for so much more, up to the most.
  /// Configs trade places between the states of a machine: two of matmul's differ by -2% to +4% as a GPU's clock sinks
  /// under load, and no number of rounds in one state shows that.
  double gain_per_drift = 0.1;
  double most_asked_for_drift = 0.015;
  /// A finalist that takes at most this share more than the fastest one ties with it.
  double tie = 0.005;
};

/// The last part of a search: the best candidates and the default take turns, round after round, so that whatever the
/// machine does meets all of them alike. Each round gives a candidate one relative time: its median over the default's
/// in that round. Those of different rounds are compared pair by pair, so that drift and the noise of the default's
/// own samples cancel.
class Playoff {
 public:
  /// `finalists` without the default; candidates are indices in the order that breaks ties.
  Playoff(std::vector<std::size_t> finalists, const PlayoffOptions& options);

  bool finished() const noexcept { return finished_; }
  /// The candidates of the next round, in the order to measure them: another one begins each time.
  std::vector<std::size_t> next_round() const;
  /// What a round gave: by candidate, its time over the default's. `reference_us` is the default's.
  void add_round(const std::map<std::size_t, double>& relative, double reference_us);
  /// Takes out a candidate that failed.
  void drop(std::size_t candidate);

  int rounds() const noexcept { return rounds_; }
  bool contains(std::size_t candidate) const { return times_.contains(candidate); }
  /// Over the rounds a finalist took part in.
  const std::vector<double>& times(std::size_t finalist) const { return times_.at(finalist); }
  Interval interval(std::size_t finalist) const;

  /// The candidate that beats the default: the first, in the order that breaks ties, of those that tie with the
  /// fastest. Nothing when none beats it by more than noise.
  std::optional<std::size_t> winner() const;

 private:
  bool settled(double reference_us);
  std::size_t leader() const;
  /// Of `a` over `b`, round by round.
  SampleSet paired(std::size_t a, std::size_t b) const;

  PlayoffOptions options_;
  std::vector<std::size_t> racing_;  ///< in the order that breaks ties
  std::map<std::size_t, std::vector<double>> times_;
  int rounds_ = 0;
  bool finished_ = false;
};

}  // namespace kiln
