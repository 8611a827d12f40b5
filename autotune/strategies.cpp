#include "autotune/strategies.hpp"

#include <utility>

#include "autotune/evolutionary_strategy.hpp"
#include "autotune/exhaustive_strategy.hpp"
#include "autotune/halving_strategy.hpp"
#include "autotune/likeliest_strategy.hpp"

namespace kiln {
namespace {

/// One strategy to its end, then another.
class StrategySequence : public Strategy {
 public:
  StrategySequence(std::unique_ptr<Strategy> first, std::unique_ptr<Strategy> second)
      : current_(std::move(first)), next_(std::move(second)) {}

  std::vector<Visit> next_visits(Scoreboard& board) override {
    std::vector<Visit> visits = current_->next_visits(board);
    if (!visits.empty() || !next_) return visits;
    current_ = std::move(next_);
    return current_->next_visits(board);
  }

 private:
  std::unique_ptr<Strategy> current_, next_;
};

std::unique_ptr<Strategy> strategy_of(StrategyKind kind, const StrategyOptions& options, const Scoreboard& board) {
  if (kind == StrategyKind::automatic)
    kind = board.size() <= kMostForExhaustive ? StrategyKind::exhaustive : StrategyKind::evolutionary;
  if (kind == StrategyKind::exhaustive) return std::make_unique<ExhaustiveStrategy>(options);
  if (kind == StrategyKind::successive_halving) return std::make_unique<HalvingStrategy>(options);
  if (kind == StrategyKind::likeliest) return std::make_unique<LikeliestStrategy>(board);
  return std::make_unique<EvolutionaryStrategy>(options, board);
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, const Scoreboard& board) {
  std::unique_ptr<Strategy> strategy = strategy_of(options.kind, options, board);
  if (!options.likeliest_first || options.kind == StrategyKind::likeliest) return strategy;
  return std::make_unique<StrategySequence>(std::make_unique<LikeliestStrategy>(board), std::move(strategy));
}

}  // namespace kiln
