#include "autotune/database_limit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/matchers.hpp"
#include "tests/support/tuned_entry.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kEntries = 20;

/// Of entries of which those with more rows are newer, each with much evidence.
EntrySet many_entries() {
  EntrySet entries;
  for (std::int64_t rows = 1; rows <= kEntries; ++rows) {
    TuningEntry entry = tuned_entry(rows, 150, kDate + rows);
    for (int i = 0; i < 30; ++i) entry.tried.push_back(measured({{"BLOCK_M", 1000 + i}, {"num_warps", 1}}, 300));
    entries.add(entry);
  }
  return entries;
}

std::string text_of(const EntrySet& entries, const std::vector<DamagedEntry>& damaged) {
  TuningDocument document;
  for (const auto& entry : entries.sorted()) document.entries.push_back(*entry);
  document.damaged = damaged;
  return format_document(document);
}

/// Entries of which there is a first one that has all, or is there at all; and all behind it are the same.
std::int64_t first_newest(const EntrySet& entries, std::size_t num_tried) {
  std::int64_t first = kEntries + 1;
  while (first > 1) {
    const auto entry = entries.find(tuned_key(first - 1));
    if (entry == nullptr || entry->tried.size() < num_tried) break;
    --first;
  }
  return first;
}

TEST(DatabaseLimit, TheOldestGoFirstAndTheirEvidenceBefore) {
  const std::vector<DamagedEntry> broken = {{"entry 1", "no config", "{}"}};
  const std::string whole = text_of(many_entries(), broken);
  struct Case {
    std::size_t most_bytes;
    bool keeps_all;  ///< entries, if not their evidence
    bool keeps_damaged;
  };
  for (const Case& c : {Case{whole.size() + 1000, true, true}, Case{whole.size() / 2, true, true},
                        Case{whole.size() / 10, false, false}, Case{100, false, false}}) {
    EntrySet entries = many_entries();
    std::vector<DamagedEntry> damaged = broken;
    shrink_to(c.most_bytes, entries, damaged);
    const std::string text = text_of(entries, damaged);
    EXPECT_LE(text.size(), std::max<std::size_t>(c.most_bytes, 100));
    EXPECT_EQ(damaged.empty(), !c.keeps_damaged);
    EXPECT_EQ(entries.size() == kEntries, c.keeps_all) << c.most_bytes;
    EXPECT_EQ(parse_document(text).entries.size(), entries.size()) << "what is left can be read";
    const std::int64_t all = first_newest(entries, 33), some = first_newest(entries, 2);
    EXPECT_EQ(entries.size(), static_cast<std::size_t>(kEntries + 1 - some))
        << "none is left that is older than a lost one";
    if (c.most_bytes > whole.size()) {
      EXPECT_EQ(all, 1);
    } else if (c.keeps_all) {
      EXPECT_GT(all, 5);
      EXPECT_LT(all, 15);
    }
  }
}

TEST(DatabaseLimit, TheChoiceAndTheDefaultKeepTheirTimes) {
  EntrySet entries = many_entries();
  std::vector<DamagedEntry> none;
  shrink_to(text_of(entries, none).size() / 2, entries, none);
  const auto oldest = entries.find(tuned_key(1));
  ASSERT_NE(oldest, nullptr);
  ASSERT_THAT(oldest->tried, SizeIs(2));
  EXPECT_NE(oldest->evidence_of(oldest->config), nullptr);
  EXPECT_NE(oldest->evidence_of(oldest->default_config), nullptr);
  EXPECT_THAT(oldest->history, SizeIs(1));
}

}  // namespace
}  // namespace kiln::test
