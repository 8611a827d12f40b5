#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "autotune/scoreboard.hpp"

namespace kiln {

enum class StrategyKind {
  automatic,           ///< exhaustive for up to kMostForExhaustive candidates, evolutionary beyond
  exhaustive,          ///< measures every candidate, and goes on with those that may be the best
  successive_halving,  ///< measures every candidate a little, keeps the better third, measures it twice as long, ...
  evolutionary,        ///< measures a sample of the space, then combinations and neighbours of the best found so far
  likeliest,           ///< measures the kLikeliest next to the default, and goes on only where one of them is better
};
inline constexpr std::size_t kMostForExhaustive = 192;
inline constexpr std::size_t kLikeliest = 8;

/// "auto", "exhaustive", "halving", "evolutionary", "likeliest": how command lines and files spell a strategy.
std::string_view to_string(StrategyKind kind);
/// The inverse. UsageError(value) that names the strategies.
StrategyKind parse_strategy(std::string_view text);

/// A turn of one candidate: how many more samples of it to take.
struct Visit {
  std::size_t candidate;
  int samples;
};

/// The part of a search that says whom to measure. It sees the scoreboard and nothing else, and answers the same to the
/// same scoreboard and seed.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// The next turns, in their order; none once it has seen enough. May cut candidates. Candidates that are no longer
  /// live at their turn are passed over.
  virtual std::vector<Visit> next_visits(Scoreboard& board) = 0;
  /// Whom it may ask for behind the turns that it has asked for, as things stand, the likeliest first, at most `count`:
  /// to compile them where there is nothing else to do. None where it has no idea.
  virtual std::vector<std::size_t> prospects(const Scoreboard& /*board*/, std::size_t /*count*/) const { return {}; }
};

struct StrategyOptions {
  StrategyKind kind = StrategyKind::automatic;
  /// What StrategyKind::likeliest measures comes first, and then the rest as `kind` has it: for where a budget may end
  /// at any moment, and compiling is most of it.
  bool likeliest_first = false;
  /// Candidates that a model of the call expects to be the fastest, best first: kLikeliest of them have a turn before
  /// all others, whatever the kind.
  std::vector<std::size_t> ranking = {};
  std::uint64_t seed = 0;
  /// Who meets in the playoff. A strategy may stop when no more candidates than the fewest are left.
  FinalistOptions finalists = {};
  int most_samples = 100;         ///< of one candidate
  double most_spent_us = 2e6;     ///< on one candidate
  std::size_t most_measured = 0;  ///< evolutionary: candidates to measure; 0: a quarter of the space, at least 192
};

}  // namespace kiln
