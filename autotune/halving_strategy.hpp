#pragma once

#include "autotune/strategy.hpp"

namespace kiln {

/// Successive halving (Jamieson and Talwalkar, 2016; the kept share is a third, as in Hyperband): every candidate gets
/// the fewest samples that give an interval, the best third twice as many, and so on until the rest fits a playoff. It
/// costs a fixed number of samples where the exhaustive strategy takes as many as a flat surface asks for.
class HalvingStrategy : public Strategy {
 public:
  /// `all_measured`: every candidate worth it has had its first samples already, so begin by keeping the best third.
  explicit HalvingStrategy(const StrategyOptions& options, bool all_measured = false)
      : options_(options), rung_(all_measured ? 1 : 0) {}
  std::vector<Visit> next_visits(Scoreboard& board) override;

 private:
  StrategyOptions options_;
  int rung_;
};

}  // namespace kiln
