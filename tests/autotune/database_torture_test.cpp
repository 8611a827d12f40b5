#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "autotune/database.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tuned_entry.hpp"

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

class TuningDatabaseTortureTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const fs::path folder_ = directory_.path() / "tuning";
};

TEST_F(TuningDatabaseTortureTest, EightProcessesTuningIntoOneFileLoseNothing) {
  constexpr int kProcesses = 8;
  constexpr int kOwnEntries = 12;
  std::vector<ChildProcess> children;
  for (int process = 0; process < kProcesses; ++process)
    children.emplace_back([&, process] {
      TuningDatabase database(folder_);
      for (int i = 0; i < kOwnEntries; ++i)
        database.record({tuned_entry(1000 * (process + 1) + i), tuned_entry(1, 150, kDate + process)});
      REQUIRE_IN_CHILD(database.problem().empty());
      return 0;
    });
  for (ChildProcess& child : children) EXPECT_EQ(child.wait(), 0);
  TuningDatabase database(folder_);
  for (int process = 0; process < kProcesses; ++process)
    for (int i = 0; i < kOwnEntries; ++i)
      EXPECT_NE(database.find(tuned_key(1000 * (process + 1) + i)), nullptr) << process << ' ' << i;
  const auto shared = database.find(tuned_key(1));
  ASSERT_NE(shared, nullptr);
  EXPECT_EQ(shared->date_unix_s, kDate + kProcesses - 1);
  EXPECT_THAT(shared->history, SizeIs(kProcesses)) << "one measurement of each";
  ASSERT_THAT(database.list(), SizeIs(1));
  EXPECT_THAT(database.list()[0].entries, SizeIs(kProcesses * kOwnEntries + 1));
  EXPECT_THAT(database.list()[0].damaged, IsEmpty());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "no lock, nothing staged";
}

TEST_F(TuningDatabaseTortureTest, AWriterKilledAtAnyMomentLeavesWhatItHadRecorded) {
  constexpr int kRounds = 60;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  // The child appends a byte for each entry that record() has returned for.
  const std::string acknowledgements = directory_.file("acknowledged");
  std::int64_t first = 1;
  int interrupted = 0;
  for (int round = 0; round < kRounds; ++round) {
    fs::remove(acknowledgements);
    ChildProcess child([&] {
      const int file = ::open(acknowledgements.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      TuningDatabase database(folder_);
      for (std::int64_t rows = first; rows < first + 100; ++rows) {
        database.record({tuned_entry(rows)});
        if (::write(file, "x", 1) != 1) return 1;
      }
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));
    interrupted += child.kill() != 0;
    const auto acknowledged =
        static_cast<std::int64_t>(fs::exists(acknowledgements) ? fs::file_size(acknowledgements) : 0);
    TuningDatabase database(folder_);
    for (std::int64_t rows = 1; rows < first + acknowledged; ++rows)
      ASSERT_NE(database.find(tuned_key(rows)), nullptr) << "round " << round << ", entry " << rows;
    ASSERT_EQ(database.problem(), "") << "round " << round;
    first += acknowledged;
  }
  EXPECT_GT(interrupted, kRounds / 2);
  // What the killed left behind is no obstacle, and goes with the next change.
  TuningDatabase database(folder_);
  database.record({tuned_entry(999'999)});
  EXPECT_EQ(database.problem(), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(TuningDatabaseTortureTest, ReadersNeverSeeAHalfWrittenFile) {
  TuningDatabase database(folder_);
  database.record({tuned_entry(1)});
  ChildProcess writer([&] {
    TuningDatabase other(folder_);
    for (std::int64_t rows = 2; true; rows = rows % 50 + 2) other.record({tuned_entry(rows, 150, kDate + rows)});
    return 0;
  });
  for (int i = 0; i < 300; ++i) {
    TuningDatabase fresh(folder_);
    ASSERT_NE(fresh.find(tuned_key(1)), nullptr);
    ASSERT_EQ(fresh.problem(), "");
  }
  writer.kill();
}

}  // namespace
}  // namespace kiln::test
