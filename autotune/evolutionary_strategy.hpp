#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "autotune/additive_model.hpp"
#include "autotune/config_grid.hpp"
#include "autotune/halving_strategy.hpp"
#include "autotune/strategy.hpp"

namespace kiln {

/// For spaces too large to measure. It starts with neighbours of the default and a random sample. Each generation then
/// measures those that a model of what was measured so far takes for the best, neighbours of the best ones (one tunable
/// a step up or down, then two), recombinations of these, and a few strangers, which find other valleys. It ends when
/// the best has not improved for a few generations and no neighbour of it is left, or when it has measured as many as
/// it may; successive halving then narrows what it found.
class EvolutionaryStrategy : public Strategy {
 public:
  EvolutionaryStrategy(const StrategyOptions& options, const Scoreboard& board);
  std::vector<Visit> next_visits(Scoreboard& board) override;

 private:
  /// Puts a candidate into the next generation, unless it was in one already or is out of the race.
  bool take(const Scoreboard& board, std::size_t candidate);
  void take_predicted(const Scoreboard& board, std::size_t most);
  void take_neighbours(const Scoreboard& board, std::size_t parent, int distance, std::size_t most);
  void take_children(const Scoreboard& board, const std::vector<std::size_t>& parents, std::size_t most);
  void take_strangers(const Scoreboard& board, std::size_t most);
  bool is_stale(const Scoreboard& board, const std::vector<std::size_t>& ranking);

  StrategyOptions options_;
  HalvingStrategy narrowing_;
  std::mt19937_64 random_;
  ConfigGrid grid_;
  AdditiveModel model_;
  std::vector<std::size_t> shuffled_;  ///< all candidates; strangers come from its end
  std::vector<bool> taken_;
  std::size_t taken_count_ = 0;
  std::size_t most_measured_;
  std::vector<std::size_t> generation_;
  double best_ = 0;  ///< relative time when it last improved
  int stale_generations_ = 0;
  bool narrows_ = false;
};

}  // namespace kiln
