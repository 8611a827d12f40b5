#pragma once

#include <functional>
#include <span>
#include <vector>

#include "autotune/sample_set.hpp"
#include "autotune/warm_up.hpp"

namespace kiln {

/// One of those that are timed side by side.
struct Contender {
  std::function<std::vector<double>(int samples)> samples_us;
  int samples_per_turn = 5;
};

struct ContenderTimes {
  std::vector<double> samples_us;  ///< in the order taken
  std::vector<double> turns_us;    ///< the median of each turn
};

struct TurnOptions {
  /// Of each contender, whatever they cost; 0: until every median is known with `precision`, or `budget_s` is spent.
  int samples = 0;
  double budget_s = 3;
  Precision precision = {};
  /// Asked between turns: true ends them with what was measured so far, of each contender a turn at least. May be
  /// empty.
  std::function<bool()> should_end = {};
  /// Called between turns; what it throws ends the comparison. May be empty.
  std::function<void()> between_turns = {};
};

/// Times contenders in turns, so that a clock that drifts and a machine that is busy for a while meet all of them
/// alike. Each is called once before, which does not count. UsageError(value) for options out of range.
std::vector<ContenderTimes> take_turns(std::span<const Contender> contenders, const TurnOptions& options = {});

/// How many times as fast `first` is as `second`, turn by turn.
SampleSet speedups(const ContenderTimes& first, const ContenderTimes& second);

}  // namespace kiln
