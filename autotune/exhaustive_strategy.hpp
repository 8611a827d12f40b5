#pragma once

#include "autotune/strategy.hpp"

namespace kiln {

/// Passes over all candidates that may still be the best, each pass with twice the samples of the one before, until
/// they are few enough for a playoff or known precisely. Passes rather than one candidate after the other: all are
/// measured over the same stretch of time, and the slow ones cost one short turn.
class ExhaustiveStrategy : public Strategy {
 public:
  explicit ExhaustiveStrategy(const StrategyOptions& options) : options_(options) {}
  std::vector<Visit> next_visits(Scoreboard& board) override;

 private:
  StrategyOptions options_;
  int passes_ = 0;
};

}  // namespace kiln
