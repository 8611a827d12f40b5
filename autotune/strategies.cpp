#include "autotune/strategies.hpp"

#include "autotune/evolutionary_strategy.hpp"
#include "autotune/exhaustive_strategy.hpp"
#include "autotune/halving_strategy.hpp"

namespace kiln {

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, const Scoreboard& board) {
  StrategyKind kind = options.kind;
  if (kind == StrategyKind::automatic)
    kind = board.size() <= kMostForExhaustive ? StrategyKind::exhaustive : StrategyKind::evolutionary;
  if (kind == StrategyKind::exhaustive) return std::make_unique<ExhaustiveStrategy>(options);
  if (kind == StrategyKind::successive_halving) return std::make_unique<HalvingStrategy>(options);
  return std::make_unique<EvolutionaryStrategy>(options, board);
}

}  // namespace kiln
