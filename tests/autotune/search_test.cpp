#include "autotune/search.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "tests/autotune/synthetic_machine.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using synthetic::Machine;
using synthetic::Surface;

/// Candidates A=0, 1, ... that take `cost_us`, in order; 0: fails. The first is the default.
Surface surface_of(const std::vector<double>& cost_us) {
  Surface surface;
  for (std::size_t i = 0; i < cost_us.size(); ++i) {
    surface.candidates.push_back({.config = {{"A", static_cast<std::int64_t>(i)}}, .ruled_out = {}});
    surface.cost_us.push_back(cost_us[i]);
    surface.fails.push_back(cost_us[i] == 0);
  }
  return surface;
}

/// Answers requests until `enough` says so, or to the end.
void answer(
    Search& search, Machine& machine, const Surface& surface,
    const std::function<bool()>& enough = [] { return false; }) {
  while (!search.finished() && !enough()) {
    const Search::Request request = search.request();
    if (surface.fails[request.candidate])
      search.report_failure(request.candidate, Outcome::unlaunched, "too many registers");
    else
      search.report(request.candidate, machine.measure(request.candidate, request.samples));
  }
}

TuningResult run(const Surface& surface, std::uint64_t seed = 1, SearchOptions options = {}) {
  Search search(surface.candidates, surface.default_index, std::move(options));
  Machine machine(surface, seed);
  answer(search, machine, surface);
  return search.result();
}

TEST(Search, BeginsWithTheDefaultUntilItIsWarm) {
  const Surface surface = surface_of({100, 80, 120});
  Search search(surface.candidates, 0);
  EXPECT_EQ(search.phase(), Search::Phase::warming_up);
  EXPECT_EQ(search.request().candidate, 0U);
  EXPECT_EQ(search.request().expected_us, 0);
  search.report(0, std::vector{300.0, 290.0, 280.0});
  search.report(0, std::vector{120.0, 110.0, 100.0});
  EXPECT_EQ(search.phase(), Search::Phase::warming_up);
  search.report(0, std::vector{101.0, 109.0, 130.0});
  EXPECT_EQ(search.phase(), Search::Phase::screening);
  EXPECT_NE(search.request().candidate, 0U);
  EXPECT_EQ(search.request().samples, 1);
  EXPECT_DOUBLE_EQ(search.request().expected_us, 109.0);
  EXPECT_EQ(search.result().candidates[0].warm_up_samples, 6);
}

/// A playoff measures otherwise: through copies of each kernel, say, and the default's may be the faster ones.
TEST(Search, WhatAPlayoffMeasuresOtherwiseIsNoDrift) {
  const Surface surface = surface_of({100, 90, 92});
  Search search(surface.candidates, 0);
  Machine machine(surface, 1);
  while (!search.finished()) {
    const Search::Request request = search.request();
    std::vector<double> samples_us = machine.measure(request.candidate, request.samples);
    if (request.round && request.candidate == 0)
      for (double& sample_us : samples_us) sample_us *= 0.9;
    search.report(request.candidate, samples_us);
  }
  EXPECT_LT(search.result().reference_drift, 0.03);
}

TEST(Search, ChoosesTheFastestAndSaysWhy) {
  const TuningResult result = run(surface_of({100, 104, 80, 300, 0}));
  EXPECT_EQ(result.chosen, 2U);
  EXPECT_TRUE(result.complete);
  EXPECT_NEAR(result.chosen_relative.low, 0.8, 0.01);
  EXPECT_NEAR(result.chosen_relative.high, 0.8, 0.01);
  EXPECT_THAT(result.verdict, Says("A=2 takes ", "% less time than the default (95%: "));
  EXPECT_EQ(result.candidates[2].rank, 1);
  EXPECT_EQ(result.candidates[0].rank, 2);
  EXPECT_EQ(result.candidates[0].outcome, Outcome::measured);
  EXPECT_EQ(result.candidates[3].outcome, Outcome::cut);
  EXPECT_THAT(result.candidates[3].reason, HasSubstr("us, and the best at most"));
  EXPECT_GT(result.candidates[3].median_us, 250);
  EXPECT_EQ(result.candidates[4].outcome, Outcome::unlaunched);
  EXPECT_EQ(result.candidates[4].reason, "too many registers");
  EXPECT_EQ(result.candidates[4].rank, 0);
  EXPECT_GT(result.reference_drift, 0);
  int samples = 0;
  for (const CandidateEvidence& evidence : result.candidates) samples += evidence.samples + evidence.warm_up_samples;
  EXPECT_EQ(samples, result.samples);
}

TEST(Search, EvidenceIsConsistent) {
  const TuningResult result = run(synthetic::transpose_surface());
  std::vector<int> ranks;
  for (const CandidateEvidence& evidence : result.candidates) {
    if (evidence.samples > 0) {
      EXPECT_GE(evidence.median_us, evidence.interval_us.low);
      EXPECT_LE(evidence.median_us, evidence.interval_us.high);
      EXPECT_GT(evidence.rank, 0);
      ranks.push_back(evidence.rank);
    } else {
      EXPECT_EQ(evidence.median_us, 0);
    }
    const bool has_a_reason = evidence.outcome != Outcome::measured && evidence.outcome != Outcome::untried;
    EXPECT_EQ(has_a_reason, !evidence.reason.empty());
  }
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(ranks[i], static_cast<int>(i) + 1);
}

TEST(Search, TheSameTimesGiveTheSameAnswers) {
  for (const StrategyKind kind :
       {StrategyKind::exhaustive, StrategyKind::successive_halving, StrategyKind::evolutionary}) {
    SearchOptions options;
    options.strategy.kind = kind;
    const Surface surface = synthetic::transpose_surface();
    const TuningResult a = run(surface, 5, options), b = run(surface, 5, options);
    EXPECT_EQ(a.chosen, b.chosen);
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.verdict, b.verdict);
    for (std::size_t i = 0; i < a.candidates.size(); ++i)
      EXPECT_EQ(a.candidates[i].interval_us, b.candidates[i].interval_us);
  }
}

TEST(Search, ADefaultThatIsBestStays) {
  const TuningResult result = run(surface_of({80, 100, 95, 400}));
  EXPECT_EQ(result.chosen, 0U);
  EXPECT_EQ(result.chosen_relative, (Interval{1, 1}));
  EXPECT_THAT(result.verdict, HasSubstr("the default stays"));
}

TEST(Search, ADefaultAloneStays) {
  const TuningResult result = run(surface_of({80}));
  EXPECT_EQ(result.chosen, 0U);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.verdict, "the default stays: no other candidate was measured");
}

TEST(Search, IfNothingElseRunsTheDefaultStays) {
  const TuningResult result = run(surface_of({80, 0, 0, 0}));
  EXPECT_EQ(result.chosen, 0U);
  EXPECT_EQ(result.candidates[3].outcome, Outcome::unlaunched);
}

TEST(Search, EveryStrategySurvivesThatNothingElseRuns) {
  std::vector<double> costs(600, 0);
  costs[0] = 100;
  for (const StrategyKind kind :
       {StrategyKind::exhaustive, StrategyKind::successive_halving, StrategyKind::evolutionary}) {
    SearchOptions options;
    options.strategy.kind = kind;
    const TuningResult result = run(surface_of(costs), 1, options);
    EXPECT_EQ(result.chosen, 0U);
    EXPECT_TRUE(result.complete);
    EXPECT_GT(result.candidates[0].samples, 0);
  }
}

TEST(Search, LongCallsHaveShorterTurns) {
  const Surface surface = surface_of({1e6, 0.8e6});
  Search search(surface.candidates, 0);
  Machine machine(surface, 1);
  answer(search, machine, surface, [&] { return search.phase() == Search::Phase::playoff; });
  while (!search.finished()) {
    const Search::Request request = search.request();
    EXPECT_EQ(request.samples, request.candidate == 0 ? 3 : 1);
    search.report(request.candidate, machine.measure(request.candidate, request.samples));
  }
  EXPECT_EQ(search.result().chosen, 1U);
}

TEST(Search, ADefaultThatFailsEndsIt) {
  const TuningResult result = run(surface_of({0, 80}));
  EXPECT_EQ(result.chosen, 0U);
  EXPECT_EQ(result.verdict, "the default failed, so there is nothing to compare with: too many registers");
}

TEST(Search, WhoFailsInThePlayoffIsNotChosen) {
  const Surface surface = surface_of({100, 70, 71});
  Search search(surface.candidates, 0);
  Machine machine(surface, 1);
  answer(search, machine, surface,
         [&] { return search.phase() == Search::Phase::playoff && search.request().candidate == 1; });
  ASSERT_FALSE(search.finished());
  search.report_failure(1, Outcome::mismatched, "another result the second time");
  answer(search, machine, surface);
  const TuningResult result = search.result();
  EXPECT_EQ(result.chosen, 2U);
  EXPECT_EQ(result.candidates[1].outcome, Outcome::mismatched);
  EXPECT_EQ(result.candidates[1].rank, 0);
}

TEST(Search, DoesNotMeasureWhatIsRuledOut) {
  Surface surface = surface_of({100, 50, 70, 60});
  surface.candidates[1].ruled_out = "needs 240 KiB of shared memory, the device has 227";
  const TuningResult result = run(surface);
  EXPECT_EQ(result.candidates[1].outcome, Outcome::ruled_out);
  EXPECT_EQ(result.candidates[1].reason, "needs 240 KiB of shared memory, the device has 227");
  EXPECT_EQ(result.candidates[1].samples, 0);
  EXPECT_EQ(result.chosen, 3U);
}

TEST(Search, CutsTheHopelessInTheirWarmUp) {
  std::vector<double> costs(40, 700);
  costs[0] = 100;
  const TuningResult result = run(surface_of(costs));
  const auto cut_early = std::count_if(result.candidates.begin(), result.candidates.end(), [](const auto& evidence) {
    return evidence.outcome == Outcome::cut && evidence.samples == WarmUp::kWindow &&
           evidence.reason.starts_with("its first calls take at least ");
  });
  EXPECT_GE(cut_early, 30);  // but for those of the first block
}

TEST(Search, TheSlowestHaveOneCall) {
  for (const auto& [cost_us, calls] : {std::pair(8000.0, 1), std::pair(1500.0, 2)}) {
    std::vector<double> costs(40, cost_us);
    costs[0] = 100;
    const TuningResult result = run(surface_of(costs));
    const auto cut = std::count_if(result.candidates.begin(), result.candidates.end(), [&](const auto& evidence) {
      return evidence.outcome == Outcome::cut && evidence.samples == calls;
    });
    EXPECT_GE(cut, 36) << cost_us;
  }
}

TEST(Search, TheRooflineRulesOut) {
  std::vector<double> costs(40, 100);
  for (std::size_t i = 1; i < costs.size(); ++i) costs[i] = 50 + static_cast<double>(i);
  Surface surface = surface_of(costs);
  for (std::size_t i = 20; i < costs.size(); ++i) surface.candidates[i].lower_bound_us = 1000;
  const TuningResult result = run(surface);
  const auto ruled_out = std::count_if(result.candidates.begin() + 20, result.candidates.end(),
                                       [](const auto& evidence) { return evidence.outcome == Outcome::ruled_out; });
  EXPECT_GE(ruled_out, 10);  // but for those of the first block
  for (const CandidateEvidence& evidence : result.candidates)
    if (evidence.outcome == Outcome::ruled_out) {
      EXPECT_THAT(evidence.reason, HasSubstr("cannot take less than 1e+03 us, and the best takes at most"));
    }
}

TEST(Search, WrappedUpItDecidesAmongThoseMeasured) {
  std::vector<double> costs(100, 90);
  costs[0] = 100;
  for (std::size_t i = 1; i < costs.size(); i += 2) costs[i] = 70;
  const Surface surface = surface_of(costs);
  Search search(surface.candidates, 0);
  Machine machine(surface, 3);
  answer(search, machine, surface, [&] { return machine.now_us() > 30'000; });
  search.wrap_up();
  answer(search, machine, surface);
  const TuningResult result = search.result();
  EXPECT_FALSE(result.complete);
  EXPECT_DOUBLE_EQ(costs[result.chosen], 70);
  EXPECT_THAT(result.verdict, HasSubstr("stopped early, with "));
  const auto untried = std::count_if(result.candidates.begin(), result.candidates.end(),
                                     [](const auto& evidence) { return evidence.outcome == Outcome::untried; });
  EXPECT_GT(untried, 20);
}

TEST(Search, HasAResultAtAnyTime) {
  const Surface surface = synthetic::transpose_surface();
  Search search(surface.candidates, surface.default_index);
  Machine machine(surface, 4);
  int calls = 0;
  while (!search.finished()) {
    const int limit = calls + 37;
    answer(search, machine, surface, [&] { return ++calls > limit; });
    const TuningResult result = search.result();
    EXPECT_FALSE(surface.fails[result.chosen]);
    EXPECT_LE(surface.cost_us[result.chosen], surface.cost_us[surface.default_index]);
    EXPECT_EQ(result.complete, search.finished());
  }
}

TEST(Search, GoesOnFromEarlierEvidence) {
  const Surface surface = synthetic::transpose_surface();
  Search first(surface.candidates, surface.default_index);
  Machine machine(surface, 6);
  answer(first, machine, surface, [&] { return machine.now_us() > 60'000; });
  ASSERT_FALSE(first.finished());
  const TuningResult interrupted = first.result();

  SearchOptions options;
  options.earlier = interrupted.candidates;
  Search second(surface.candidates, surface.default_index, options);
  Machine later(surface, 7);
  std::vector<bool> asked(surface.candidates.size());
  while (!second.finished()) {
    const Search::Request request = second.request();
    asked[request.candidate] = true;
    if (surface.fails[request.candidate])
      second.report_failure(request.candidate, Outcome::unlaunched, "too many registers");
    else
      second.report(request.candidate, later.measure(request.candidate, request.samples));
  }
  int spared = 0;
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (interrupted.candidates[i].outcome == Outcome::cut || is_failure(interrupted.candidates[i].outcome)) {
      EXPECT_FALSE(asked[i]);
      ++spared;
    }
  EXPECT_GT(spared, 20);
  const TuningResult result = second.result();
  EXPECT_TRUE(result.complete);
  EXPECT_LE(surface.cost_us[result.chosen], 1.02 * surface.best_us());
  for (std::size_t i = 0; i < asked.size(); ++i)
    EXPECT_TRUE(asked[i] || result.candidates[i].reason == interrupted.candidates[i].reason);
}

TEST(Search, EarlierEvidenceOfOtherConfigsIsIgnored) {
  const Surface surface = surface_of({100, 80});
  SearchOptions options;
  CandidateEvidence hung;
  hung.outcome = Outcome::hung;
  hung.config = {{"B", 1}};
  options.earlier.push_back(hung);
  hung.config = {{"A", 0}};  // the default is always tried
  options.earlier.push_back(hung);
  EXPECT_EQ(run(surface, 1, options).chosen, 1U);
}

TEST(Search, TellsWhoComesNext) {
  const Surface surface = surface_of(std::vector<double>(30, 100));
  Search search(surface.candidates, 0);
  Machine machine(surface, 1);
  const std::vector<std::size_t> first = search.upcoming(9);
  EXPECT_EQ(first.front(), 0U);
  EXPECT_FALSE(search.begins_turn());
  answer(search, machine, surface, [&] { return search.request().candidate != 0; });
  const std::vector<std::size_t> next = search.upcoming(8);
  ASSERT_EQ(next.size(), 8U);
  EXPECT_THAT(first, ElementsAreArray([&] {
                std::vector<std::size_t> all{0};
                all.insert(all.end(), next.begin(), next.end());
                return all;
              }()));
  EXPECT_EQ(next.front(), search.request().candidate);
  std::vector<std::size_t> order;
  answer(search, machine, surface, [&] {
    const std::size_t candidate = search.request().candidate;
    if (candidate != 0 && (order.empty() || order.back() != candidate)) order.push_back(candidate);
    return order.size() == 8;
  });
  EXPECT_EQ(order, next);
}

TEST(Search, GivesATurnThatBeginsToAnother) {
  const Surface surface = surface_of(std::vector<double>(30, 100));
  Search search(surface.candidates, 0);
  Machine machine(surface, 1);
  answer(search, machine, surface, [&] { return search.request().candidate != 0; });
  const std::vector<std::size_t> next = search.upcoming(8);
  ASSERT_TRUE(search.begins_turn());
  search.prefer(next[5]);
  EXPECT_EQ(search.request().candidate, next[5]);
  EXPECT_THAT(search.upcoming(8), testing::UnorderedElementsAreArray(next)) << "nobody loses its turn";
  search.prefer(next[5]);
  EXPECT_EQ(search.request().candidate, next[5]);
  EXPECT_THROW(search.prefer(0), InternalError) << "its turn does not come next";
  search.report(next[5], machine.measure(next[5], 1));
  EXPECT_FALSE(search.begins_turn());
  EXPECT_THROW(search.prefer(next[0]), InternalError);
}

TEST(Search, WrappingUpTakesATurnBackThatHasNotBegun) {
  const Surface surface = surface_of(std::vector<double>(30, 100));
  Search search(surface.candidates, 0);
  Machine machine(surface, 1);
  answer(search, machine, surface, [&] { return search.request().candidate != 0; });
  const std::size_t candidate = search.request().candidate;
  search.wrap_up();
  answer(search, machine, surface, [&] { return false; });
  EXPECT_EQ(search.result().candidates[candidate].outcome, Outcome::untried);
}

TEST(Search, AcceptsFewerSamplesThanAskedFor) {
  const Surface surface = surface_of({100, 80, 90});
  Search search(surface.candidates, 0);
  Machine machine(surface, 1);
  while (!search.finished()) search.report(search.request().candidate, machine.measure(search.request().candidate, 1));
  EXPECT_EQ(search.result().chosen, 1U);
}

TEST(Search, RefusesMisuse) {
  const Surface surface = surface_of({100, 80});
  EXPECT_THAT(value_error([] { const Search search({}, 0); }), HasSubstr("default_index=0 of 0 candidates"));
  EXPECT_THAT(value_error([&] { const Search search(surface.candidates, 2); }), HasSubstr("default_index=2 of 2"));
  SearchOptions options;
  options.strategy.finalists.fewest = 0;
  EXPECT_THAT(value_error([&] { const Search search(surface.candidates, 0, options); }),
              HasSubstr("finalists.fewest=0"));
  Search search(surface.candidates, 0);
  const std::vector<double> three{100, 100, 100};
  EXPECT_THAT(value_error([&] { search.report(1, three); }), HasSubstr("expected those of candidate 0"));
  EXPECT_THAT(value_error([&] { search.report(0, {}); }), HasSubstr("0 samples"));
  EXPECT_THAT(value_error([&] { search.report(0, std::vector<double>(4, 1.0)); }), HasSubstr("expected 1 to 3"));
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(value_error([&] { search.report(0, std::vector<double>{100, bad}); }),
                HasSubstr("expected a finite time above 0"));
  EXPECT_THROW(search.report_failure(0, Outcome::cut, "slow"), InternalError);
  EXPECT_THAT(value_error([&] { search.report_failure(1, Outcome::hung, ""); }), HasSubstr("the request is for"));
  search.report_failure(0, Outcome::unlaunched, "no device");
  EXPECT_TRUE(search.finished());
  EXPECT_THROW(search.request(), InternalError);
}

}  // namespace
}  // namespace kiln::test
