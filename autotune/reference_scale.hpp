#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "autotune/sample_set.hpp"

namespace kiln {

/// What the default takes, turn after turn: the scale by which the times of candidates are compared although the
/// machine's speed changes under them.
class ReferenceScale {
 public:
  struct Level {
    double us = 0;
    double error = 1;  ///< half its 95% interval, as a share; 1 when nothing is known
  };

  void add_turn(std::span<const double> samples_us);
  /// What the default takes from now on is measured otherwise: later turns are not compared with those before.
  void start_anew();
  bool has_turns() const noexcept { return !last_turns_us_.empty(); }
  /// The default's time between its last two turns, by these two.
  Level between_turns() const;
  /// The same by the last 4, 8 or 16 turns where noise leaves the last two unclear: more samples tell a median better,
  /// and a drift over more turns shows in their spread. For comparisons that do not repeat: levels of overlapping
  /// turns err together.
  Level level() const;
  /// Over all turns.
  double median_us() const { return all_us_.median(); }
  /// How far between_turns() moved beyond doubt: 0.03 is 3% from the least to the most.
  double drift() const noexcept;

 private:
  Level level_by(std::size_t turns) const;

  std::deque<std::vector<double>> last_turns_us_;  ///< the newest last
  SampleSet all_us_;
  double lowest_us_ = std::numeric_limits<double>::infinity();  ///< upper end of an interval
  double highest_us_ = 0;                                       ///< lower end of one
  double earlier_drift_ = 0;
};

}  // namespace kiln
