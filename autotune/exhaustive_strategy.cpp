#include "autotune/exhaustive_strategy.hpp"

#include <algorithm>
#include <random>

#include "autotune/random_order.hpp"

namespace kiln {

std::vector<Visit> ExhaustiveStrategy::next_visits(Scoreboard& board) {
  const int samples = static_cast<int>(kFewestForInterval) << std::min(passes_, 3);
  ++passes_;
  std::vector<Visit> visits;
  std::size_t live = 0;
  for (std::size_t i = 0; i < board.size(); ++i) {
    if (i == board.default_index() || !board.is_live(i)) continue;
    ++live;
    const int left = options_.most_samples - static_cast<int>(board.relative(i).size());
    if (board.is_precise(i) || left <= 0 || board.spent_us(i) >= options_.most_spent_us) continue;
    visits.push_back({i, std::min(samples, left)});
  }
  if (passes_ > 1 && live <= options_.finalists.fewest) return {};
  // Not the space's order: a budget that ends early should have seen a bit of everything.
  std::mt19937_64 random(options_.seed + static_cast<std::uint64_t>(passes_));
  shuffle(visits, random);
  return visits;
}

}  // namespace kiln
