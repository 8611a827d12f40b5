#include "autotune/halving_strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "autotune/random_order.hpp"

namespace kiln {
namespace {

constexpr std::size_t kKeptShare = 3;  // one of three

}  // namespace

std::vector<Visit> HalvingStrategy::next_visits(Scoreboard& board) {
  std::vector<std::size_t> live;
  if (rung_ == 0) {
    for (std::size_t i = 0; i < board.size(); ++i)
      if (board.is_live(i)) live.push_back(i);
  } else {
    live = board.ranking();
  }
  std::erase(live, board.default_index());
  if (rung_ > 0) {
    const std::size_t finalists = std::max(options_.finalists.fewest, board.finalists(options_.finalists).size());
    if (live.size() <= finalists) return {};
    const std::size_t kept = std::max(finalists, (live.size() + kKeptShare - 1) / kKeptShare);
    for (std::size_t place = kept; place < live.size(); ++place)
      board.close(live[place], Outcome::cut,
                  fmt::format("not among the best {} of {} after {} samples", kept, live.size(),
                              board.relative(live[place]).size()));
    live.resize(kept);
  }
  const int samples = static_cast<int>(kFewestForInterval) << std::min(rung_, 4);
  ++rung_;
  std::mt19937_64 random(options_.seed + static_cast<std::uint64_t>(rung_));
  shuffle(live, random);
  std::vector<Visit> visits;
  for (const std::size_t candidate : live)
    if (board.spent_us(candidate) < options_.most_spent_us) visits.push_back({candidate, samples});
  return visits;
}

}  // namespace kiln
