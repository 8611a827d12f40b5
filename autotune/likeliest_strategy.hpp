#pragma once

#include <cstddef>
#include <vector>

#include "autotune/config_grid.hpp"
#include "autotune/strategy.hpp"

namespace kiln {

/// For budgets in which compiling is most of the time: measures the default and the kLikeliest candidates that are the
/// likeliest to beat it, and ends. Where one of these does, those around it have their turn as well, and so on. The
/// likeliest are those of the fewest steps (ConfigGrid) away from the best one known, which at first is the default:
/// the op's model of a call's cost chose that one, and errs by a little more often than by much. Candidates that are
/// equally far away come in the space's order.
class LikeliestStrategy : public Strategy {
 public:
  explicit LikeliestStrategy(const Scoreboard& board)
      : grid_(board), taken_(board.size()), centre_(board.default_index()) {}
  std::vector<Visit> next_visits(Scoreboard& board) override;
  std::vector<std::size_t> prospects(const Scoreboard& board, std::size_t count) const override;

 private:
  std::vector<std::size_t> nearest(const Scoreboard& board, std::size_t centre, std::size_t count) const;

  ConfigGrid grid_;
  std::vector<bool> taken_;
  std::size_t centre_;  ///< of the next turns
  bool has_begun_ = false;
};

}  // namespace kiln
