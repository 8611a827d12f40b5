#include "autotune/entry_merge.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "autotune/entry_set.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tuned_entry.hpp"

namespace kiln::test {
namespace {

/// Both ways round, since an order that depended on who comes first would make merges depend on it.
void expect_better(const TuningEntry& better, const TuningEntry& worse, const std::string& reason) {
  EXPECT_FALSE(better_evidence(better, worse).second);
  EXPECT_TRUE(better_evidence(worse, better).second);
  EXPECT_THAT(better_evidence(better, worse).reason, HasSubstr(reason));
  EXPECT_EQ(better_evidence(better, worse).reason, better_evidence(worse, better).reason);
}

TEST(EntryMergeTest, BetterEvidenceWins) {
  const TuningEntry entry = tuned_entry(64);
  TuningEntry other = entry;
  EXPECT_EQ(better_evidence(entry, other).reason, "");
  other.config = config_of(64);
  expect_better(entry, other, "names");  // 128 before 64
  other.date_unix_s = kDate + 1;
  expect_better(other, entry, "a later date (2026-11-20T18:40:01Z against 2026-11-20T18:40:00Z)");
  other.tried[1].interval_us = {100, 300};
  expect_better(entry, other, "a tighter interval (2% against 100% of the median)");
  other.tried.push_back(measured(config_of(16), 400));
  expect_better(other, entry, "more configs measured (3 against 2)");
  other.compiler = "nvrtc 12.9";
  expect_better(entry, other, "a newer compiler (nvrtc 13.0 against nvrtc 12.9)");
  other.driver = "1000.1";
  expect_better(other, entry, "a newer driver (1000.1 against 580.65.06)");
}

TEST(EntryMergeTest, AnyOrderOfMergingGivesTheSame) {
  std::vector<TuningEntry> entries;
  for (int i = 0; i < 6; ++i) {
    TuningEntry entry = tuned_entry(64, 150 + i, kDate + i % 3);
    if (i % 2 == 0) entry.driver = i == 4 ? "570.1" : "590.1";
    if (i == 3) entry.tried.push_back(measured(config_of(16), 400));
    if (i == 5) entry.config = config_of(64);
    entries.push_back(entry);
  }
  std::vector<std::size_t> order(entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::string expected;
  do {
    EntrySet merged;
    for (const std::size_t i : order) merged.add(entries[i]);
    const std::string text = format_entry(*merged.find(entries[0].key));
    if (expected.empty()) expected = text;
    ASSERT_EQ(text, expected);
  } while (std::ranges::next_permutation(order).found);
  EXPECT_THAT(expected, HasSubstr("590.1"));
}

TEST(EntryMergeTest, HistoryKeepsTheLastTen) {
  EntrySet entries;
  for (int i = 0; i < 15; ++i) entries.add(tuned_entry(64, 150 + i % 2, kDate + i));
  entries.add(tuned_entry(64, 150, kDate + 14));  // seen before
  const auto entry = entries.find(tuned_key(64));
  ASSERT_EQ(entry->history.size(), kHistoryLength);
  for (std::size_t i = 0; i < kHistoryLength; ++i)
    EXPECT_EQ(entry->history[i].date_unix_s, kDate + 5 + static_cast<std::int64_t>(i));
}

TEST(EntryMergeTest, OutcomesSayWhatHappened) {
  using Kind = MergeOutcome::Kind;
  EntrySet entries;
  EXPECT_EQ(entries.add(tuned_entry(64)).kind, Kind::added);
  EXPECT_EQ(entries.add(tuned_entry(64)).kind, Kind::identical);
  const MergeOutcome later = entries.add(tuned_entry(64, 151, kDate + 9));
  EXPECT_EQ(later.kind, Kind::replaced);
  EXPECT_THAT(later.reason, HasSubstr("later date"));
  EXPECT_EQ(later.former->tried[0].median_us, 150);
  EXPECT_EQ(later.offered->tried[0].median_us, 151);
  TuningEntry narrow = tuned_entry(64, 152, kDate + 10);
  narrow.tried.pop_back();
  narrow.tried.pop_back();
  EXPECT_EQ(entries.add(narrow).kind, Kind::kept);
  EXPECT_EQ(entries.find(narrow.key)->tried.size(), 3U);
  EXPECT_EQ(entries.find(narrow.key)->history.size(), 3U) << "what it measured is part of the history all the same";
  EXPECT_EQ(entries.add(narrow, EntrySet::Conflict::offered_wins).kind, Kind::replaced);
  EXPECT_EQ(entries.find(narrow.key)->tried.size(), 1U);
  EXPECT_EQ(entries.size(), 1U);
}

TEST(EntryMergeTest, DriftBeyondNoiseIsReported) {
  const auto drift = [](TuningEntry earlier, const TuningEntry& later) {
    add_own_measurement(earlier);
    return drift_between(earlier, later);
  };
  const TuningEntry entry = tuned_entry(64, 150);
  EXPECT_FALSE(drift(entry, tuned_entry(64, 150.5, kDate + 1)));
  TuningEntry precise = entry;
  precise.tried[0].interval_us = {149.9, 150.1};
  EXPECT_FALSE(drift(precise, tuned_entry(64, 152, kDate + 1))) << "outside of the interval, and within 2%";
  const auto slower = drift(entry, tuned_entry(64, 180, kDate + 1));
  ASSERT_TRUE(slower);
  EXPECT_EQ(slower->before_us, 150);
  EXPECT_EQ(slower->now_us, 180);
  EXPECT_THAT(slower->text, HasSubstr("BLOCK_M=128 num_warps=4 took 150 us in 1 earlier measurement, and now takes 180 "
                                      "us (+20.0%, beyond noise)"));
  EXPECT_TRUE(drift(entry, tuned_entry(64, 120, kDate + 1))) << "faster is a drift too";
  EXPECT_FALSE(drift(entry, tuned_entry(64, 180, kDate - 1))) << "not a later one";
  TuningEntry other_policy = tuned_entry(64, 180, kDate + 1);
  other_policy.policy.l2 = MeasuringPolicy::L2::hot;
  EXPECT_FALSE(drift(entry, other_policy));
  TuningEntry other_driver = tuned_entry(64, 180, kDate + 1);
  other_driver.driver = "590.1";
  EXPECT_THAT(drift(entry, other_driver)->text, HasSubstr("the driver was 580.65.06 and is 590.1"));
  // The former winner is what drifted, whoever wins now.
  TuningEntry other_winner = tuned_entry(64, 300, kDate + 1);
  other_winner.config = config_of(64);
  EXPECT_EQ(drift(entry, other_winner)->config, config_of(128));
  // Earlier measurements that were spread out themselves are the noise.
  TuningEntry noisy = tuned_entry(64, 185, kDate - 5);
  add_own_measurement(noisy);
  TuningEntry earlier = entry;
  earlier.history = noisy.history;
  EXPECT_FALSE(drift(earlier, tuned_entry(64, 180, kDate + 1)));
}

}  // namespace
}  // namespace kiln::test
