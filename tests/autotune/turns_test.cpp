#include "autotune/turns.hpp"

#include <string>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

/// A contender whose samples are `times_us`, one after the other, again and again; `log` gets its name at each turn.
Contender made_up(const std::string& name, std::vector<double> times_us, std::string& log, int per_turn = 2) {
  return {[name, times_us, &log, next = std::size_t{0}](int count) mutable {
            log += name;
            std::vector<double> samples;
            for (int i = 0; i < count; ++i) samples.push_back(times_us[next++ % times_us.size()]);
            return samples;
          },
          per_turn};
}

TEST(Turns, ContendersAlternateAfterOneCallThatDoesNotCount) {
  std::string log;
  const std::vector<Contender> contenders{made_up("a", {9, 1, 2}, log), made_up("b", {4}, log)};
  const std::vector<ContenderTimes> times = take_turns(contenders, {.samples = 3});
  EXPECT_EQ(log, "ababab");
  ASSERT_EQ(times.size(), 2U);
  EXPECT_THAT(times[0].samples_us, ElementsAre(1, 2, 9));
  EXPECT_THAT(times[0].turns_us, ElementsAre(1.5, 9));
  EXPECT_THAT(times[1].samples_us, ElementsAre(4, 4, 4));
}

TEST(Turns, SpeedupsPairTheTurns) {
  std::string log;
  const std::vector<Contender> contenders{made_up("a", {1}, log), made_up("b", {4, 2}, log, 1)};
  const std::vector<ContenderTimes> times = take_turns(contenders, {.samples = 6});
  const SampleSet ratios = speedups(times[0], times[1]);
  EXPECT_EQ(ratios.size(), 3U);  // of a's three turns
  EXPECT_EQ(ratios.median(), 2);
  EXPECT_EQ(ratios.smallest(), 2);
}

TEST(Turns, EndWhenEveryMedianIsKnown) {
  std::string log;
  const std::vector<Contender> contenders{made_up("a", {100}, log), made_up("b", {200}, log)};
  const std::vector<ContenderTimes> times = take_turns(contenders, {.budget_s = 1000});
  EXPECT_EQ(times[0].samples_us.size(), kFewestForInterval);
}

TEST(Turns, EndWhenAskedToWithWhatThereIs) {
  std::string log;
  const std::vector<Contender> contenders{made_up("a", {100, 900}, log), made_up("b", {4}, log)};
  int asked = 0;
  const std::vector<ContenderTimes> times =
      take_turns(contenders, {.budget_s = 1000, .should_end = [&] { return ++asked == 3; }});
  EXPECT_EQ(asked, 3);
  for (const ContenderTimes& of_one : times) EXPECT_EQ(of_one.turns_us.size(), 3U);
}

TEST(Turns, EndWithTheBudget) {
  std::string log;
  const std::vector<Contender> contenders{made_up("a", {100, 900}, log)};  // never precise
  EXPECT_EQ(take_turns(contenders, {.budget_s = 1e-9})[0].samples_us.size(), 2U);
}

TEST(Turns, WhatIsThrownBetweenTurnsEndsThem) {
  std::string log;
  const std::vector<Contender> contenders{made_up("a", {100, 900}, log)};
  int turns = 0;
  const auto third = [&] {
    if (++turns == 3) throw InternalError("enough");
  };
  EXPECT_THROW(take_turns(contenders, {.budget_s = 1000, .between_turns = third}), InternalError);
  EXPECT_EQ(log, "aaa");
}

TEST(Turns, OptionsOutOfRangeAreRefused) {
  const auto problem_with = [](const TurnOptions& options) { return usage_message([&] { take_turns({}, options); }); };
  EXPECT_THAT(problem_with({.samples = -1}), HasSubstr("samples=-1"));
  EXPECT_THAT(problem_with({.budget_s = 0}), HasSubstr("budget_s=0"));
}

}  // namespace
}  // namespace kiln::test
