#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autotune/search.hpp"
#include "tests/autotune/synthetic_machine.hpp"

namespace kiln::test {
namespace {

using synthetic::Machine;
using synthetic::Surface;

constexpr int kRuns = 100;

/// How far apart copies of one kernel are, and through how many a playoff goes.
struct Places {
  double share = 0;
  std::uint64_t count = 1;
};

TuningResult run(const Surface& surface, StrategyKind kind, std::uint64_t seed, Places places = {}) {
  SearchOptions options;
  options.strategy.kind = kind;
  options.strategy.seed = seed;
  if (places.count > 1) options.strategy.finalists = kFinalistsByCopies;
  Search search(surface.candidates, surface.default_index, options);
  Machine machine(surface, 1000 + seed, places.share, places.count);
  while (!search.finished()) {
    const Search::Request request = search.request();
    if (surface.fails[request.candidate])
      search.report_failure(request.candidate, Outcome::unlaunched, "too many resources requested");
    else
      search.report(request.candidate, machine.measure(request.candidate, request.samples, request.round));
  }
  return search.result();
}

struct Quality {
  int within_2_percent = 0;
  int within_1_percent = 0;
  double worst = 0;          // over the best: 0.02 is 2% slower
  double worst_default = 0;  // over the default
  int kept_default = 0;
  double measured = 0;  // candidates, mean
  double samples = 0;
  double spread = 0;  // slowest choice over fastest
};

Quality quality_of(const Surface& surface, StrategyKind kind, Places places = {}) {
  Quality quality{.worst_default = -1};
  double slowest = 0, fastest = 1e300;
  for (int seed = 0; seed < kRuns; ++seed) {
    const TuningResult result = run(surface, kind, static_cast<std::uint64_t>(seed), places);
    EXPECT_TRUE(result.complete);
    EXPECT_FALSE(surface.fails[result.chosen]);
    const double cost = surface.cost_us[result.chosen];
    const double over_best = cost / surface.best_us() - 1;
    quality.within_2_percent += over_best <= 0.02;
    quality.within_1_percent += over_best <= 0.01;
    quality.worst = std::max(quality.worst, over_best);
    quality.worst_default = std::max(quality.worst_default, cost / surface.cost_us[surface.default_index] - 1);
    quality.kept_default += result.chosen == result.default_index;
    quality.samples += static_cast<double>(result.samples) / kRuns;
    for (const CandidateEvidence& evidence : result.candidates)
      quality.measured += (evidence.samples > 0 || evidence.outcome == Outcome::cut) / static_cast<double>(kRuns);
    slowest = std::max(slowest, cost);
    fastest = std::min(fastest, cost);
  }
  quality.spread = slowest / fastest - 1;
  return quality;
}

/// For docs/performance.md: one row of the table of strategies.
void print_row(const Surface& surface, StrategyKind kind, const Quality& quality) {
  fmt::print("| {} | {} | {} | {:.1f}% | {} | {} | {:.1f}% | {} | {:.1f}% | {:.0f} | {:.0f} |\n", surface.name,
             to_string(kind), surface.candidates.size(),
             100 * (surface.cost_us[surface.default_index] / surface.best_us() - 1), quality.within_2_percent,
             quality.within_1_percent, 100 * quality.worst, quality.kept_default, 100 * quality.spread,
             quality.measured, quality.samples);
}

class SearchQuality : public testing::TestWithParam<StrategyKind> {
 protected:
  void SetUp() override {
    fmt::print(
        "| surface | strategy | candidates | default over best | within 2% | within 1% | worst over best | default "
        "kept | "
        "slowest choice over fastest | measured | samples |\n");
  }
};

TEST_P(SearchQuality, FindsTheBestInNoise) {
  for (const Surface& surface : {synthetic::matmul_surface(), synthetic::elementwise_surface(),
                                 synthetic::transpose_surface(), synthetic::rugged_surface()}) {
    const Quality quality = quality_of(surface, GetParam());
    print_row(surface, GetParam(), quality);
    EXPECT_GE(quality.within_2_percent, 99) << surface.name;
    EXPECT_LE(quality.worst_default, 0) << surface.name;
  }
}

TEST_P(SearchQuality, KeepsTheDefaultWhereNothingIsBetter) {
  const Surface surface = synthetic::plateau_surface();
  const Quality quality = quality_of(surface, GetParam());
  print_row(surface, GetParam(), quality);
  EXPECT_GE(quality.kept_default, 99);
}

TEST_P(SearchQuality, FindsTheBestWhereverItLies) {
  const Surface surface = synthetic::short_matmul_surface();
  const Quality one_place = quality_of(surface, GetParam(), {.share = 0.02, .count = 1});
  const Quality many_places = quality_of(surface, GetParam(), {.share = 0.02, .count = 30});
  print_row(surface, GetParam(), one_place);
  print_row(surface, GetParam(), many_places);
  EXPECT_GE(many_places.within_2_percent, 95);
  EXPECT_LT(one_place.within_2_percent, many_places.within_2_percent);
  EXPECT_GT(one_place.worst, many_places.worst);
}

INSTANTIATE_TEST_SUITE_P(Strategies, SearchQuality,
                         testing::Values(StrategyKind::exhaustive, StrategyKind::successive_halving,
                                         StrategyKind::evolutionary),
                         [](const auto& param) { return std::string(to_string(param.param)); });

}  // namespace
}  // namespace kiln::test
