#include "autotune/playoff.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <vector>

namespace kiln::test {
namespace {

/// Plays with true relative times, `noise` of its own for each sample, and `common` noise that a round's candidates
/// share.
Playoff play(const std::map<std::size_t, double>& times, double noise, double common, std::uint64_t seed = 1) {
  std::vector<std::size_t> finalists;
  for (const auto& [candidate, time] : times) finalists.push_back(candidate);
  Playoff playoff(finalists, {});
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  while (!playoff.finished()) {
    const double shared = 1 + common * normal(random);
    std::map<std::size_t, double> round;
    for (const std::size_t candidate : playoff.next_round())
      round[candidate] = times.at(candidate) * shared * (1 + noise * normal(random));
    playoff.add_round(round, 1000);
  }
  return playoff;
}

TEST(Playoff, TheFastestWins) {
  const Playoff playoff = play({{4, 0.9}, {7, 0.8}, {9, 0.95}}, 0.004, 0);
  EXPECT_EQ(playoff.winner(), 7U);
  EXPECT_EQ(playoff.rounds(), 12);
  EXPECT_LE(playoff.interval(7).low, 0.8);
  EXPECT_GE(playoff.interval(7).high, 0.799);
}

TEST(Playoff, NobodyWinsByLessThanNoise) {
  EXPECT_EQ(play({{1, 1.0}, {2, 1.02}}, 0.01, 0).winner(), std::nullopt);
  EXPECT_EQ(play({{1, 0.997}}, 0.002, 0).winner(), std::nullopt);  // certain, but less than the least gain
  EXPECT_EQ(play({{1, 0.985}}, 0.3, 0).winner(), std::nullopt);    // more than that, but uncertain
  EXPECT_EQ(play({{1, 0.985}}, 0.002, 0).winner(), 1U);
}

TEST(Playoff, TiesGoToTheFirst) {
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(play({{3, 0.9}, {5, 0.9}, {8, 0.9}, {11, 0.97}}, 0.003, 0, seed).winner(), 3U) << seed;
}

TEST(Playoff, NoiseThatARoundSharesDoesNotHideWhoIsFaster) {
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(play({{1, 0.62}, {2, 0.6}}, 0.003, 0.1, seed).winner(), 2U) << seed;
}

TEST(Playoff, AnotherOneBeginsEachRound) {
  Playoff playoff({2, 5, 6}, {});
  EXPECT_EQ(playoff.next_round(), (std::vector<std::size_t>{2, 5, 6}));
  playoff.add_round({{2, 0.9}, {5, 0.9}, {6, 0.9}}, 100);
  EXPECT_EQ(playoff.next_round(), (std::vector<std::size_t>{5, 6, 2}));
}

TEST(Playoff, WhoFailsIsOut) {
  Playoff playoff({2, 5}, {});
  for (int round = 0; round < 8; ++round) playoff.add_round({{2, 0.5}, {5, 0.7}}, 100);
  EXPECT_EQ(playoff.winner(), 2U);
  playoff.drop(2);
  EXPECT_EQ(playoff.winner(), 5U);
  EXPECT_FALSE(playoff.contains(2));
  playoff.drop(5);
  EXPECT_TRUE(playoff.finished());
  EXPECT_EQ(playoff.winner(), std::nullopt);
}

TEST(Playoff, FewRoundsProveNothing) {
  Playoff playoff({2}, {});
  for (int round = 0; round < 5; ++round) playoff.add_round({{2, 0.5}}, 100);
  EXPECT_EQ(playoff.winner(), std::nullopt);
}

TEST(Playoff, WithoutFinalistsItIsOver) {
  const Playoff playoff({}, {});
  EXPECT_TRUE(playoff.finished());
  EXPECT_EQ(playoff.winner(), std::nullopt);
}

}  // namespace
}  // namespace kiln::test
