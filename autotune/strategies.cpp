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

  std::vector<std::size_t> prospects(const Scoreboard& board, std::size_t count) const override {
    std::vector<std::size_t> prospects = current_->prospects(board, count);
    return prospects.empty() && next_ ? next_->prospects(board, count) : prospects;
  }

 private:
  std::unique_ptr<Strategy> current_, next_;
};

/// A turn for each of the first candidates of a ranking.
class RankingStrategy : public Strategy {
 public:
  explicit RankingStrategy(std::vector<std::size_t> ranking) : ranking_(std::move(ranking)) {}

  std::vector<Visit> next_visits(Scoreboard& board) override {
    std::vector<Visit> visits;
    for (const std::size_t candidate : ranking_)
      if (visits.size() < kLikeliest && board.is_live(candidate) && candidate != board.default_index())
        visits.push_back({candidate, static_cast<int>(kFewestForInterval)});
    ranking_.clear();
    return visits;
  }

 private:
  std::vector<std::size_t> ranking_;
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
  if (options.likeliest_first && options.kind != StrategyKind::likeliest)
    strategy = std::make_unique<StrategySequence>(std::make_unique<LikeliestStrategy>(board), std::move(strategy));
  if (options.ranking.empty()) return strategy;
  return std::make_unique<StrategySequence>(std::make_unique<RankingStrategy>(options.ranking), std::move(strategy));
}

}  // namespace kiln
