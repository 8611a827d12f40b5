#include "autotune/database.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "core/file_lock.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tuned_entry.hpp"

namespace kiln::test {
namespace {

namespace fs = std::filesystem;
using Kind = MergeOutcome::Kind;

constexpr TuningDatabase::Clock::duration kAlways{};

class TuningDatabaseTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const fs::path folder_ = directory_.path() / "cache" / "tuning";
  const fs::path file_ = folder_ / kDeviceFile;
  TuningDatabase database_{folder_, kAlways};
};

TEST_F(TuningDatabaseTest, WhatIsRecordedIsFoundByTheNextProcess) {
  EXPECT_EQ(database_.find(tuned_key(64)), nullptr);
  const auto outcomes = database_.record({tuned_entry(64), tuned_entry(128, 140)});
  ASSERT_THAT(outcomes, SizeIs(2));
  EXPECT_EQ(outcomes[0].kind, Kind::added);
  EXPECT_EQ(database_.problem(), "");
  ChildProcess next([&] {
    TuningDatabase database(folder_);
    const auto entry = database.find(tuned_key(64));
    REQUIRE_IN_CHILD(entry != nullptr);
    REQUIRE_IN_CHILD(entry->config == config_of(128));
    REQUIRE_IN_CHILD(entry->history.size() == 1);
    REQUIRE_IN_CHILD(database.find(tuned_key(128))->tried[0].median_us == 140);
    REQUIRE_IN_CHILD(database.find(tuned_key(65)) == nullptr);
    REQUIRE_IN_CHILD(database.problem().empty());
    return 0;
  });
  EXPECT_EQ(next.wait(), 0);
  struct stat status{};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(TuningDatabaseTest, EntriesOfOtherHardwareSourcesOrSpacesAreNotFound) {
  database_.record({tuned_entry(64)});
  std::vector<TuningKey> others(4, tuned_key(64));
  others[0].device_model = "NVIDIA H100";
  others[1].processors = 131;
  others[2].kernel_hash[0] = 'f';
  others[3].space_hash[0] = '0';
  for (const TuningKey& key : others) {
    EXPECT_EQ(database_.find(key), nullptr) << to_string(key);
    EXPECT_FALSE(database_.find_nearest(key));
  }
}

TEST_F(TuningDatabaseTest, TheNearestShapeIsTheClosestByLogarithm) {
  EXPECT_FALSE(database_.find_nearest(tuned_key(64)));
  database_.record({tuned_entry(16), tuned_entry(1024), tuned_entry(4096)});
  const auto nearest = [&](std::int64_t rows) { return database_.find_nearest(tuned_key(rows)); };
  EXPECT_EQ(nearest(100)->entry->key, tuned_key(16));
  EXPECT_EQ(nearest(200)->entry->key, tuned_key(1024));
  EXPECT_EQ(nearest(2048)->entry->key, tuned_key(1024)) << "as far as 4096, and first as text";
  EXPECT_EQ(nearest(2048)->distance, 1);
  EXPECT_EQ(nearest(1024)->distance, 0);
  TuningKey other = tuned_key(64);
  other.dtypes = "f16, f16";
  EXPECT_FALSE(database_.find_nearest(other));
}

TEST_F(TuningDatabaseTest, AnEditIsSeenWithoutARestart) {
  database_.record({tuned_entry(64)});
  TuningDatabase other(folder_, kAlways);
  TuningDatabase patient(folder_, std::chrono::hours(1));
  ASSERT_NE(other.find(tuned_key(64)), nullptr);
  ASSERT_NE(patient.find(tuned_key(64)), nullptr);
  database_.record({tuned_entry(128)});
  EXPECT_NE(other.find(tuned_key(128)), nullptr);
  EXPECT_EQ(patient.find(tuned_key(128)), nullptr) << "looked at the file again too early";
  EXPECT_NE(patient.find(tuned_key(64)), nullptr);
  fs::remove(file_);
  EXPECT_EQ(other.find(tuned_key(64)), nullptr);
}

TEST_F(TuningDatabaseTest, OneDevicesFileHoldsNoOthers) {
  TuningEntry cpu = tuned_entry(64);
  cpu.key.device_model = "AMD EPYC 9355 32-Core/\xc3\xa9";
  database_.record({cpu, tuned_entry(64)});
  EXPECT_TRUE(fs::exists(folder_ / "AMD_EPYC_9355_32-Core%2F%C3%A9.json"));
  EXPECT_NE(database_.find(cpu.key), nullptr);
  ASSERT_THAT(database_.list(), SizeIs(2));
  EXPECT_THAT(database_.list()[0].entries, SizeIs(1));
  // A file under another device's name.
  fs::rename(folder_ / "AMD_EPYC_9355_32-Core%2F%C3%A9.json", file_);
  EXPECT_EQ(database_.find(tuned_key(64)), nullptr);
  EXPECT_THAT(database_.problem(), HasSubstr("whose file is AMD_EPYC_9355_32-Core%2F%C3%A9.json"));
  EXPECT_EQ(TuningDatabase::file_name(".."), "%2E..json");
  EXPECT_LT(TuningDatabase::file_name(std::string(5000, '/')).size(), 250U);
}

TEST_F(TuningDatabaseTest, TheBetterEvidenceStaysAndBothAreReported) {
  database_.record({tuned_entry(64)});
  TuningEntry poorer = tuned_entry(64, 100, kDate + 5);
  poorer.tried.pop_back();
  poorer.tried.pop_back();
  const auto kept = database_.record({poorer});
  EXPECT_EQ(kept[0].kind, Kind::kept);
  EXPECT_EQ(kept[0].offered->tried[0].median_us, 100);
  EXPECT_EQ(kept[0].former->tried[0].median_us, 150);
  EXPECT_THAT(kept[0].reason, HasSubstr("more configs measured (2 against 1)"));
  ASSERT_TRUE(kept[0].drift);
  EXPECT_THAT(kept[0].drift->text, HasSubstr("now takes 100 us"));
  EXPECT_EQ(TuningDatabase(folder_).find(poorer.key)->history.size(), 2U);
  EXPECT_EQ(database_.record({poorer}, EntrySet::Conflict::offered_wins)[0].kind, Kind::replaced);
  EXPECT_EQ(TuningDatabase(folder_).find(poorer.key)->tried[0].median_us, 100);
}

TEST_F(TuningDatabaseTest, WhatCouldNotBeReadBackIsNotRecorded) {
  TuningEntry nameless = tuned_entry(64);
  nameless.key.op.clear();
  EXPECT_THROW(database_.record({nameless}), InternalError);
  TuningEntry unfounded = tuned_entry(64);
  unfounded.config = config_of(7);
  EXPECT_THROW(database_.record({unfounded}), InternalError);
  EXPECT_FALSE(fs::exists(file_));
}

TEST_F(TuningDatabaseTest, ADamagedFileIsUsedMendedAndKeptBeside) {
  database_.record({tuned_entry(16), tuned_entry(64), tuned_entry(256)});
  const std::string text = read_text(file_);
  const std::string damaged = text.substr(0, text.size() / 2);
  write_text(file_, damaged);
  // A process that starts now has what came before the cut.
  TuningDatabase fresh(folder_, kAlways);
  EXPECT_NE(fresh.find(tuned_key(16)), nullptr);
  EXPECT_EQ(fresh.find(tuned_key(64)), nullptr);
  EXPECT_THAT(fresh.problem(), Says(kDeviceFile, "it is no JSON", "1 of its entries can be used"));
  // One that had read it whole has it whole, and mends it with its next entry.
  EXPECT_NE(database_.find(tuned_key(64)), nullptr);
  database_.record({tuned_entry(1024)});
  EXPECT_EQ(database_.problem(), "");
  EXPECT_EQ(read_text(folder_ / (std::string(kDeviceFile) + ".damaged")), damaged);
  ASSERT_THAT(database_.list(), SizeIs(1));
  EXPECT_THAT(database_.list()[0].entries, SizeIs(4));
  EXPECT_NE(fresh.find(tuned_key(1024)), nullptr);
}

TEST_F(TuningDatabaseTest, ADamagedEntryStaysForItsAuthorToMend) {
  database_.record({tuned_entry(16), tuned_entry(64)});
  std::string text = read_text(file_);
  text.replace(text.find("\"processors\": 132"), 17, "\"processors\": \"1\"");
  write_text(file_, text);
  EXPECT_EQ(database_.find(tuned_key(16)), nullptr);
  EXPECT_THAT(database_.problem(), Says("entry 1 (matmul 16x4096", "'processors' is \"1\""));
  database_.record({tuned_entry(256)});
  ASSERT_THAT(database_.list(), SizeIs(1));
  EXPECT_THAT(database_.list()[0].entries, SizeIs(2));
  EXPECT_THAT(database_.list()[0].damaged, SizeIs(1));
  const auto removed = database_.remove_if([](const TuningEntry& entry) { return entry.key == tuned_key(64); });
  EXPECT_EQ(removed.entries, 1U);
  EXPECT_EQ(removed.damaged, 1U);
  EXPECT_THAT(removed.problems, IsEmpty());
  EXPECT_EQ(database_.find(tuned_key(64)), nullptr);
  EXPECT_NE(database_.find(tuned_key(256)), nullptr);
  EXPECT_EQ(database_.problem(), "");
}

TEST_F(TuningDatabaseTest, AFileStaysWithinWhatIsReadBack) {
  constexpr std::int64_t kRows = 36;
  std::vector<TuningEntry> entries;
  for (std::int64_t rows = 1; rows <= kRows; ++rows) {
    entries.push_back(tuned_entry(rows, 150, kDate + rows));
    entries.back().tried.back().reason = std::string(2 << 20, 'x');
  }
  database_.record(entries);
  EXPECT_EQ(database_.problem(), "");
  EXPECT_LE(fs::file_size(file_), kMaxTuningDocumentBytes);
  TuningDatabase next(folder_);
  EXPECT_THAT(next.find(tuned_key(1))->tried, SizeIs(2));
  EXPECT_THAT(next.find(tuned_key(kRows))->tried, SizeIs(3));
  EXPECT_EQ(next.problem(), "");
}

TEST_F(TuningDatabaseTest, AFileThatIsTooLargeIsUsedMendedAndKeptBeside) {
  const auto make = [&] {
    database_.record({tuned_entry(16), tuned_entry(64)});
    const std::string text = read_text(file_);
    write_text(file_, text + std::string(kMaxTuningDocumentBytes, ' '));
  };
  make();
  TuningDatabase database(folder_, kAlways);
  EXPECT_NE(database.find(tuned_key(16)), nullptr);
  EXPECT_THAT(database.problem(), Says(kDeviceFile, "more than any tuning database", "2 of its entries can be used"));
  database.record({tuned_entry(256)});
  EXPECT_EQ(database.problem(), "");
  EXPECT_LT(fs::file_size(file_), 20'000U);
  EXPECT_GT(fs::file_size(folder_ / (std::string(kDeviceFile) + ".damaged")), kMaxTuningDocumentBytes);
  EXPECT_NE(TuningDatabase(folder_).find(tuned_key(64)), nullptr);
  make();
  const auto removed = database.remove_if([](const TuningEntry& entry) { return entry.key != tuned_key(64); });
  EXPECT_EQ(removed.entries, 2U);
  EXPECT_THAT(removed.problems, IsEmpty());
  EXPECT_NE(TuningDatabase(folder_).find(tuned_key(64)), nullptr);
  EXPECT_LT(fs::file_size(file_), 20'000U);
}

TEST_F(TuningDatabaseTest, AFileOfALaterVersionIsNotTouched) {
  database_.record({tuned_entry(16)});
  std::string text = read_text(file_);
  text.replace(text.find("\"schema_version\": 1"), 19, "\"schema_version\": 9");
  write_text(file_, text);
  TuningDatabase database(folder_, kAlways);
  EXPECT_EQ(database.find(tuned_key(16)), nullptr);
  database.record({tuned_entry(64)});
  EXPECT_THAT(database.problem(), Says("schema version is 9", "memory only"));
  EXPECT_NE(database.find(tuned_key(64)), nullptr);
  EXPECT_THAT(database.remove_if([](const TuningEntry&) { return true; }).problems, SizeIs(1));
  EXPECT_EQ(read_text(file_), text);
}

TEST_F(TuningDatabaseTest, ManyThreadsFindAndRecord) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 5; ++i) {
        const std::int64_t rows = thread * 100 + i;
        database_.record({tuned_entry(rows)});
        for (int repeat = 0; repeat < 100; ++repeat) wrong += database_.find(tuned_key(rows)) == nullptr;
        wrong += !database_.find_nearest(tuned_key(rows + 1));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_THAT(database_.list()[0].entries, SizeIs(20));
}

/// Another process may hold a file for long; nobody who only looks up waits for that.
TEST_F(TuningDatabaseTest, LookupsDoNotWaitForAWriter) {
  database_.record({tuned_entry(64)});
  const std::string lock_file = (folder_ / (std::string(kDeviceFile) + ".lock"));
  const FileDescriptor file(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(lock(file), LockResult::locked);
  std::thread writer([&] { database_.record({tuned_entry(128)}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(database_.find(tuned_key(64)), nullptr);
  EXPECT_EQ(database_.find(tuned_key(128)), nullptr) << "the writer did not wait for the lock";
  EXPECT_EQ(database_.problem(), "");
  unlock(file);
  writer.join();
  EXPECT_NE(database_.find(tuned_key(128)), nullptr);
}

/// Measured against reading the file, which lookups must not come near: sanitizers and busy machines slow both. On a
/// quiet machine a lookup takes a quarter of a microsecond.
TEST_F(TuningDatabaseTest, FindingCostsLittle) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  std::vector<TuningEntry> entries;
  for (std::int64_t rows = 0; rows < 500; ++rows) entries.push_back(tuned_entry(rows));
  database_.record(entries);
  TuningDatabase database(folder_);
  const TuningKey present = tuned_key(77);
  const TuningKey absent = tuned_key(1000);
  const auto before_reading = std::chrono::steady_clock::now();
  ASSERT_NE(database.find(present), nullptr);
  const double reading_us = Microseconds(std::chrono::steady_clock::now() - before_reading).count();
  double lookup_us = reading_us;
  for (int round = 0; round < 20; ++round) {
    constexpr int kLookups = 500;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLookups; ++i) {
      if (database.find(present) == nullptr) FAIL();
      if (database.find(absent) != nullptr) FAIL();
    }
    lookup_us = std::min(lookup_us, Microseconds(std::chrono::steady_clock::now() - start).count() / (2 * kLookups));
  }
  RecordProperty("lookup_us", std::to_string(lookup_us));
  EXPECT_LT(lookup_us, reading_us / 500);
}

}  // namespace
}  // namespace kiln::test
