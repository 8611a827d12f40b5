#include "autotune/evolutionary_strategy.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "autotune/random_order.hpp"

namespace kiln {
namespace {

// Chosen on the surfaces of tests/autotune/search_quality_test.cpp.
constexpr std::size_t kFewestMeasured = 192;
constexpr std::size_t kFirstGeneration = 64;
constexpr std::size_t kParents = 8;
constexpr std::size_t kPredicted = 12;
constexpr std::size_t kNeighbours = 8;
constexpr std::size_t kChildren = 4;
constexpr std::size_t kStrangers = 4;
constexpr int kMostStaleGenerations = 8;
constexpr double kImprovement = 0.005;  // less is noise

}  // namespace

EvolutionaryStrategy::EvolutionaryStrategy(const StrategyOptions& options, const Scoreboard& board)
    : options_(options),
      narrowing_(options, true),
      random_(options.seed),
      grid_(board),
      model_(grid_.extents()),
      taken_(board.size()),
      most_measured_(options.most_measured > 0 ? options.most_measured : std::max(kFewestMeasured, board.size() / 4)) {
  for (std::size_t i = 0; i < board.size(); ++i) shuffled_.push_back(i);
  shuffle(shuffled_, random_);
}

bool EvolutionaryStrategy::take(const Scoreboard& board, std::size_t candidate) {
  if (taken_[candidate] || !board.is_live(candidate) || candidate == board.default_index()) return false;
  if (taken_count_ >= most_measured_) return false;
  taken_[candidate] = true;
  ++taken_count_;
  generation_.push_back(candidate);
  return true;
}

void EvolutionaryStrategy::take_predicted(const Scoreboard& board, std::size_t most) {
  std::vector<const ConfigGrid::Point*> known;
  std::vector<double> log_costs;
  double worst = 0;
  for (std::size_t i = 0; i < board.size(); ++i)
    if (board.is_measured(i)) {
      known.push_back(&grid_.point(i));
      log_costs.push_back(std::log(board.relative(i).median()));
      worst = std::max(worst, log_costs.back());
    }
  // What fails has neighbours that fail.
  for (std::size_t i = 0; i < board.size(); ++i)
    if (is_failure(board.outcome(i))) {
      known.push_back(&grid_.point(i));
      log_costs.push_back(worst);
    }
  model_.fit(known, log_costs);
  std::vector<std::pair<double, std::size_t>> guesses;
  for (std::size_t i = 0; i < board.size(); ++i)
    if (!taken_[i] && board.is_live(i)) guesses.emplace_back(model_.predict(grid_.point(i)), i);
  most = std::min(most, guesses.size());
  std::partial_sort(guesses.begin(), guesses.begin() + static_cast<std::ptrdiff_t>(most), guesses.end());
  for (std::size_t place = 0; place < most; ++place) take(board, guesses[place].second);
}

void EvolutionaryStrategy::take_neighbours(const Scoreboard& board, std::size_t parent, int distance,
                                           std::size_t most) {
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < grid_.size(); ++i)
    if (!taken_[i] && grid_.steps_between(i, parent) == distance) near.push_back(i);
  shuffle(near, random_);
  const std::size_t limit = generation_.size() + most;
  for (const std::size_t candidate : near)
    if (generation_.size() < limit) take(board, candidate);
}

void EvolutionaryStrategy::take_children(const Scoreboard& board, const std::vector<std::size_t>& parents,
                                         std::size_t most) {
  // Constraints make some combinations illegal, and others exist already.
  for (std::size_t tries = 16 * most; tries > 0 && most > 0; --tries) {
    const ConfigGrid::Point& mother = grid_.point(parents[random_below(random_, parents.size())]);
    const ConfigGrid::Point& father = grid_.point(parents[random_below(random_, parents.size())]);
    ConfigGrid::Point child = mother;
    for (std::size_t i = 0; i < child.size(); ++i)
      if (random_below(random_, 2) == 1) child[i] = father[i];
    if (!child.empty() && random_below(random_, 3) == 0)
      child[random_below(random_, child.size())] += random_below(random_, 2) == 1 ? 1 : -1;
    const std::optional<std::size_t> found = grid_.candidate_at(child);
    if (found && take(board, *found)) --most;
  }
}

void EvolutionaryStrategy::take_strangers(const Scoreboard& board, std::size_t most) {
  while (most > 0 && !shuffled_.empty()) {
    if (take(board, shuffled_.back())) --most;
    shuffled_.pop_back();
  }
}

bool EvolutionaryStrategy::is_stale(const Scoreboard& board, const std::vector<std::size_t>& ranking) {
  const double best = board.relative(ranking.front()).median();
  if (best_ == 0 || best < best_ * (1 - kImprovement)) {
    best_ = best;
    stale_generations_ = 0;
  } else {
    ++stale_generations_;
  }
  return stale_generations_ >= kMostStaleGenerations;
}

std::vector<Visit> EvolutionaryStrategy::next_visits(Scoreboard& board) {
  if (narrows_) return narrowing_.next_visits(board);
  const std::vector<std::size_t> ranking = board.ranking();
  const std::vector<std::size_t> parents(
      ranking.begin(), ranking.begin() + static_cast<std::ptrdiff_t>(std::min(kParents, ranking.size())));
  // Nothing but failures so far is no direction to go in either.
  const bool first = taken_count_ == 0 || ranking.size() < 2;
  const bool stale = !first && is_stale(board, ranking);
  generation_.clear();
  if (first) {
    // Its author knew something: what surrounds the default is worth a look however little time there is.
    for (const int distance : {1, 2})
      if (generation_.size() < kNeighbours)
        take_neighbours(board, board.default_index(), distance, kNeighbours - generation_.size());
    take_strangers(board, kFirstGeneration - generation_.size());
  } else {
    for (const int distance : {1, 2})
      for (const std::size_t parent : parents)
        if (generation_.size() < kNeighbours)
          take_neighbours(board, parent, distance, kNeighbours - generation_.size());
    if (stale) {
      // Noise can put a neighbour of the best first; only when nothing is left around it, it is the bottom of a valley.
      const auto next_to_best = [&](std::size_t candidate) {
        return grid_.steps_between(candidate, parents.front()) == 1;
      };
      if (std::none_of(generation_.begin(), generation_.end(), next_to_best)) generation_.clear();
    }
    if (!stale || !generation_.empty()) {
      take_predicted(board, kPredicted);
      take_children(board, parents, kChildren);
      take_strangers(board, kStrangers);
    }
  }
  if (generation_.empty()) {
    narrows_ = true;
    return narrowing_.next_visits(board);
  }
  std::vector<Visit> visits;
  for (const std::size_t candidate : generation_) visits.push_back({candidate, static_cast<int>(kFewestForInterval)});
  return visits;
}

}  // namespace kiln
