#include "autotune/strategies.hpp"

#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "autotune/additive_model.hpp"
#include "autotune/evidence.hpp"
#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

Scoreboard board_of(int candidates, Precision precision = {}) {
  std::vector<Candidate> list;
  for (int i = 0; i < candidates; ++i) list.push_back({.config = {{"A", i}}, .ruled_out = {}});
  Scoreboard board(std::move(list), 0, precision);
  board.set_reference_us(100);
  return board;
}

/// Answers visits with times that are the candidate's number over ten, up to 2% more.
void answer(Scoreboard& board, const std::vector<Visit>& visits) {
  for (const Visit& visit : visits) {
    std::vector<double> samples;
    for (int i = 0; i < visit.samples; ++i)
      samples.push_back((1 + static_cast<double>(visit.candidate) / 10) * (1 + 0.02 * (i % 7) / 6));
    board.add(visit.candidate, samples, 0);
  }
}

TEST(StrategyNames, GoBothWays) {
  for (const StrategyKind kind : {StrategyKind::automatic, StrategyKind::exhaustive, StrategyKind::successive_halving,
                                  StrategyKind::evolutionary, StrategyKind::likeliest})
    EXPECT_EQ(parse_strategy(to_string(kind)), kind);
  EXPECT_THAT(usage_message([] { parse_strategy("exhaustiv"); }),
              Says("did you mean 'exhaustive'", "auto, exhaustive, halving, evolutionary, likeliest"));
}

TEST(OutcomeNames, GoBothWays) {
  for (const Outcome outcome : {Outcome::untried, Outcome::measured, Outcome::cut, Outcome::ruled_out,
                                Outcome::uncompiled, Outcome::unlaunched, Outcome::mismatched, Outcome::hung})
    EXPECT_EQ(parse_outcome(to_string(outcome)), outcome);
  EXPECT_THROW(parse_outcome("lost"), UsageError);
  EXPECT_FALSE(is_failure(Outcome::ruled_out));
  EXPECT_TRUE(is_failure(Outcome::uncompiled));
}

/// Of a default that takes 10 us and others that take 9.02, 9.04, ... us.
Scoreboard close_board(double unseen_us) {
  std::vector<Candidate> list;
  for (int i = 0; i < 40; ++i) list.push_back({.config = {{"A", i}}, .ruled_out = {}});
  Scoreboard board(std::move(list), 0, {}, unseen_us);
  board.set_reference_us(10);
  board.add(0, std::vector<double>(8, 1), 0);
  for (std::size_t i = 1; i < 40; ++i) board.add(i, std::vector<double>(8, 0.9 + 0.002 * static_cast<double>(i)), 0);
  return board;
}

TEST(Finalists, AreThoseThatMayBeTheBest) {
  const Scoreboard board = close_board(0.305);  // which 16 are within
  EXPECT_EQ(board.finalists({.fewest = 2, .most = 24}).size(), 16U);
  EXPECT_EQ(board.finalists({.fewest = 2, .most = 12}).size(), 12U);
  EXPECT_EQ(board.finalists({.fewest = 20, .most = 24}).size(), 20U);
  // A round of the default and four others takes 46 us.
  EXPECT_EQ(board.finalists({.fewest = 2, .most = 24, .most_round_us = 46.5}).size(), 4U);
  EXPECT_EQ(close_board(0).finalists({.fewest = 2, .most = 24}), (std::vector<std::size_t>{1, 2}));
}

TEST(Cutoff, OthersAreNotCutForWhatTheDefaultMayOweToItsPlace) {
  const auto outcome_of = [](double relative) {
    std::vector<Candidate> list(2);
    Scoreboard board(std::move(list), 0, {.share = 0.01, .time_us = 0}, 0.6);
    board.set_reference_us(6);
    board.add(0, std::vector<double>(8, 1), 0);
    board.add(1, std::vector<double>(8, relative), 0);
    board.cut_slow();
    return board.outcome(1);
  };
  EXPECT_EQ(outcome_of(1.09), Outcome::measured);
  EXPECT_EQ(outcome_of(1.2), Outcome::cut);
}

TEST(Exhaustive, VisitsAllThenThoseThatMayBeTheBest) {
  Scoreboard board = board_of(40);
  const std::unique_ptr<Strategy> strategy = make_strategy({.kind = StrategyKind::exhaustive}, board);
  std::vector<Visit> visits = strategy->next_visits(board);
  std::set<std::size_t> seen;
  for (const Visit& visit : visits) seen.insert(visit.candidate);
  EXPECT_EQ(seen.size(), 39U);
  EXPECT_FALSE(seen.contains(0));
  EXPECT_EQ(visits.front().samples, static_cast<int>(kFewestForInterval));

  answer(board, visits);
  board.cut_slow();
  EXPECT_EQ(board.outcome(1), Outcome::measured);
  EXPECT_EQ(board.outcome(30), Outcome::cut);
  EXPECT_THAT(board.reason(30), HasSubstr("takes at least 400 us, and the best at most"));
  EXPECT_TRUE(strategy->next_visits(board).empty());  // the rest fits a playoff
}

TEST(Exhaustive, GoesOnWithMoreSamplesWhileManyAreAlike) {
  Scoreboard board = board_of(20, {.share = 0.001, .time_us = 0});
  const std::unique_ptr<Strategy> strategy =
      make_strategy({.kind = StrategyKind::exhaustive, .finalists = {.fewest = 2}, .most_samples = 30}, board);
  int passes = 0;
  for (std::vector<Visit> visits = strategy->next_visits(board); !visits.empty();
       visits = strategy->next_visits(board)) {
    ++passes;
    for (const Visit& visit : visits) {
      std::vector<double> samples;
      for (int i = 0; i < visit.samples; ++i) samples.push_back(1 + 0.05 * (i % 6));
      board.add(visit.candidate, samples, 0);
      EXPECT_LE(board.relative(visit.candidate).size(), 30U);
    }
  }
  EXPECT_EQ(passes, 3);  // 6, 12, and the 12 that are left
}

std::vector<std::size_t> candidates_of(const std::vector<Visit>& visits) {
  std::vector<std::size_t> candidates;
  for (const Visit& visit : visits) candidates.push_back(visit.candidate);
  return candidates;
}

/// Candidate 10 * i + j has A 2^i and B 2^j; the default is A 8, B 4.
Scoreboard square_board() {
  std::vector<Candidate> list;
  for (const std::int64_t a : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512})
    for (const std::int64_t b : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512})
      list.push_back({.config = {{"A", a}, {"B", b}}, .ruled_out = {}});
  Scoreboard board(std::move(list), 32, {});
  board.set_reference_us(100);
  board.add(32, std::vector<double>(6, 1), 0);
  return board;
}

void answer_alike(Scoreboard& board, const std::vector<std::size_t>& candidates, double relative) {
  for (const std::size_t candidate : candidates) board.add(candidate, std::vector<double>(6, relative), 0);
}

TEST(Likeliest, AreThoseOfFewestStepsFromTheDefaultInTheSpacesOrder) {
  Scoreboard board = square_board();
  board.close(31, Outcome::ruled_out, "launches the same as A=8 B=4");
  const std::unique_ptr<Strategy> strategy = make_strategy({.kind = StrategyKind::likeliest}, board);
  const std::vector<std::size_t> first = candidates_of(strategy->next_visits(board));
  EXPECT_EQ(first, (std::vector<std::size_t>{22, 33, 42, 12, 21, 23, 30, 34}));
  EXPECT_EQ(first.size(), kLikeliest);
  // None of them is better by more than noise.
  answer_alike(board, first, 0.99);
  EXPECT_TRUE(strategy->next_visits(board).empty());
}

TEST(Likeliest, GoOnAroundOneThatIsBetter) {
  Scoreboard board = square_board();
  const std::unique_ptr<Strategy> strategy = make_strategy({.kind = StrategyKind::likeliest}, board);
  const std::vector<std::size_t> first = candidates_of(strategy->next_visits(board));
  EXPECT_EQ(first, (std::vector<std::size_t>{22, 31, 33, 42, 12, 21, 23, 30}));
  answer_alike(board, first, 1.5);
  answer_alike(board, {42, 42, 42}, 0.5);
  const std::vector<std::size_t> second = candidates_of(strategy->next_visits(board));
  EXPECT_EQ(second, (std::vector<std::size_t>{41, 43, 52, 40, 44, 51, 53, 62}));
  answer_alike(board, second, 1.2);
  EXPECT_TRUE(strategy->next_visits(board).empty());
}

TEST(Likeliest, ExpectToGoOnAroundTheBest) {
  Scoreboard board = square_board();
  const std::unique_ptr<Strategy> strategy =
      make_strategy({.kind = StrategyKind::exhaustive, .likeliest_first = true}, board);
  const std::vector<std::size_t> first = candidates_of(strategy->next_visits(board));
  for (const std::size_t prospect : strategy->prospects(board, 5)) EXPECT_THAT(first, Not(Contains(prospect)));
  EXPECT_EQ(strategy->prospects(board, 5).size(), 5U);
  answer_alike(board, first, 1.5);
  answer_alike(board, {42, 42, 42}, 0.5);
  EXPECT_EQ(strategy->prospects(board, 3), (std::vector<std::size_t>{41, 43, 52}));
  EXPECT_EQ(strategy->prospects(board, 1000).size(), 100 - 1 - kLikeliest);
}

TEST(Likeliest, ComeFirstWhereTheyAreAskedForAndThenTheOthers) {
  Scoreboard board = square_board();
  const std::unique_ptr<Strategy> strategy =
      make_strategy({.kind = StrategyKind::exhaustive, .likeliest_first = true}, board);
  const std::vector<std::size_t> first = candidates_of(strategy->next_visits(board));
  EXPECT_EQ(first.size(), kLikeliest);
  answer_alike(board, first, 1.5);
  EXPECT_GE(strategy->next_visits(board).size(), 100 - 1 - kLikeliest);
}

TEST(Ranking, HasItsTurnsBeforeAllOthers) {
  Scoreboard board = square_board();
  board.close(7, Outcome::ruled_out, "launches the same as another");
  const std::vector<std::size_t> ranking{7, board.default_index(), 90, 80, 70, 60, 50, 40, 30, 20, 10, 0};
  const std::unique_ptr<Strategy> strategy =
      make_strategy({.kind = StrategyKind::exhaustive, .ranking = ranking}, board);
  const std::vector<std::size_t> first = candidates_of(strategy->next_visits(board));
  EXPECT_EQ(first, (std::vector<std::size_t>{90, 80, 70, 60, 50, 40, 30, 20}));
  answer_alike(board, first, 1.5);
  EXPECT_GE(strategy->next_visits(board).size(), 100 - 2 - kLikeliest);
}

TEST(Halving, KeepsTheBetterThird) {
  Scoreboard board = board_of(60);
  const std::unique_ptr<Strategy> strategy = make_strategy({.kind = StrategyKind::successive_halving}, board);
  std::vector<std::size_t> sizes;
  std::vector<int> samples;
  for (std::vector<Visit> visits = strategy->next_visits(board); !visits.empty();
       visits = strategy->next_visits(board)) {
    sizes.push_back(visits.size());
    samples.push_back(visits.front().samples);
    answer(board, visits);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{59, 20, 7, 6}));
  EXPECT_EQ(samples, (std::vector<int>{6, 12, 24, 48}));
  EXPECT_EQ(board.ranking().front(), 1U);
  EXPECT_EQ(board.outcome(59), Outcome::cut);
  EXPECT_EQ(board.reason(59), "not among the best 20 of 59 after 6 samples");
}

TEST(Evolutionary, MeasuresNoMoreThanItMay) {
  Scoreboard board = board_of(2000);
  const std::unique_ptr<Strategy> strategy =
      make_strategy({.kind = StrategyKind::evolutionary, .most_measured = 100}, board);
  std::set<std::size_t> seen;
  for (std::vector<Visit> visits = strategy->next_visits(board); !visits.empty();
       visits = strategy->next_visits(board)) {
    for (const Visit& visit : visits) seen.insert(visit.candidate);
    answer(board, visits);
  }
  EXPECT_LE(seen.size(), 100U);
  EXPECT_LE(board.ranking().front(), 20U);  // 5% of 2000 were measured, and the best 1% found
}

TEST(Automatic, GoesBySize) {
  Scoreboard small = board_of(100), large = board_of(static_cast<int>(kMostForExhaustive) + 1);
  EXPECT_EQ(make_strategy({}, small)->next_visits(small).size(), 99U);
  EXPECT_LT(make_strategy({}, large)->next_visits(large).size(), 100U);
}

TEST(AdditiveModel, LearnsEffectsOfValuesAndPairs) {
  std::vector<std::vector<int>> genes;
  const auto cost = [](const std::vector<int>& g) {
    return 0.3 * std::abs(g[0] - 2) + 0.2 * (g[1] == 3) + 0.4 * (g[0] == 1 && g[2] == 1);
  };
  for (int a = 0; a < 5; ++a)
    for (int b = 0; b < 4; ++b)
      for (int c = 0; c < 3; ++c) genes.push_back({a, b, c});
  std::vector<const std::vector<int>*> known;
  std::vector<double> log_costs;
  for (std::size_t i = 0; i < genes.size(); ++i)
    if (i % 4 != 3) {
      known.push_back(&genes[i]);
      log_costs.push_back(cost(genes[i]));
    }
  AdditiveModel model({5, 4, 3});
  model.fit(known, log_costs);
  double error = 0;
  for (std::size_t i = 3; i < genes.size(); i += 4) error += std::abs(model.predict(genes[i]) - cost(genes[i]));
  EXPECT_LT(error / 15, 0.08);  // of costs from 0 to 1.2 that it was never shown
}

}  // namespace
}  // namespace kiln::test
