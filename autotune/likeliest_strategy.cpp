#include "autotune/likeliest_strategy.hpp"

#include <algorithm>
#include <utility>

namespace kiln {
namespace {

/// What another candidate must save at least for those around it to be worth compiling; less is noise.
constexpr double kWorthMoving = 0.02;

}  // namespace

std::vector<std::size_t> LikeliestStrategy::nearest(const Scoreboard& board, std::size_t centre,
                                                    std::size_t count) const {
  std::vector<std::size_t> nearest;
  for (std::size_t i = 0; i < board.size(); ++i)
    if (!taken_[i] && board.is_live(i) && i != board.default_index()) nearest.push_back(i);
  std::stable_sort(nearest.begin(), nearest.end(), [&](std::size_t a, std::size_t b) {
    return grid_.steps_between(a, centre) < grid_.steps_between(b, centre);
  });
  nearest.resize(std::min(nearest.size(), count));
  return nearest;
}

std::vector<std::size_t> LikeliestStrategy::prospects(const Scoreboard& board, std::size_t count) const {
  const std::vector<std::size_t> ranking = board.ranking();
  return nearest(board, ranking.empty() ? centre_ : ranking.front(), count);
}

std::vector<Visit> LikeliestStrategy::next_visits(Scoreboard& board) {
  if (has_begun_) {
    const std::vector<std::size_t> ranking = board.ranking();
    if (ranking.empty()) return {};
    const double best = board.relative(ranking.front()).median();
    if (best > board.relative(centre_).median() * (1 - kWorthMoving)) return {};
    centre_ = ranking.front();
  }
  has_begun_ = true;
  std::vector<Visit> visits;
  for (const std::size_t candidate : nearest(board, centre_, kLikeliest)) {
    taken_[candidate] = true;
    visits.push_back({candidate, static_cast<int>(kFewestForInterval)});
  }
  return visits;
}

}  // namespace kiln
