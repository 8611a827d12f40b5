#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "autotune/database.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tmpfs.hpp"
#include "tests/support/tuned_entry.hpp"
#include "tests/support/unprivileged.hpp"

/// Disks that refuse: full, read-only, or another user's. Each check runs in a child, whose limits, identity and mounts
/// are its own.
namespace kiln::test {
namespace {

namespace fs = std::filesystem;

constexpr TuningDatabase::Clock::duration kAlways{};

/// An entry that takes about 1 MB.
TuningEntry large_entry(std::int64_t rows) {
  TuningEntry entry = tuned_entry(rows);
  entry.strategy = std::string(1'000'000, 's');
  return entry;
}

class TuningDatabaseRefusalTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const fs::path folder_ = directory_.path() / "tuning";
  const fs::path file_ = folder_ / kDeviceFile;
};

/// A change that the disk has no room for, and one that it has after all.
int check_full_disk(const fs::path& folder, const std::function<void()>& make_full,
                    const std::function<void()>& make_room) {
  const fs::path file = folder / kDeviceFile;
  TuningDatabase database(folder, kAlways);
  database.record({tuned_entry(1)});
  REQUIRE_IN_CHILD(database.problem().empty());
  const std::string text = read_text(file);
  make_full();
  database.record({large_entry(2)});
  REQUIRE_IN_CHILD(database.problem().find("kept in memory only") != std::string::npos);
  REQUIRE_IN_CHILD(database.problem().find(file.string()) != std::string::npos);
  REQUIRE_IN_CHILD(read_text(file) == text);
  REQUIRE_IN_CHILD(database.find(tuned_key(1)) != nullptr);
  REQUIRE_IN_CHILD(database.find(tuned_key(2)) != nullptr);
  REQUIRE_IN_CHILD(TuningDatabase(folder).find(tuned_key(1)) != nullptr);
  REQUIRE_IN_CHILD(TuningDatabase(folder).find(tuned_key(2)) == nullptr);
  REQUIRE_IN_CHILD(database.list().size() == 1 && database.list()[0].entries.size() == 2);
  make_room();
  // What could not be written goes with the next change.
  database.record({tuned_entry(3)});
  REQUIRE_IN_CHILD(database.problem().empty());
  REQUIRE_IN_CHILD(TuningDatabase(folder).find(tuned_key(2)) != nullptr);
  REQUIRE_IN_CHILD(TuningDatabase(folder).find(tuned_key(3)) != nullptr);
  return 0;
}

TEST_F(TuningDatabaseRefusalTest, AFileSizeLimitIsSurvived) {
  ChildProcess child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const auto limit = [](bool is_on) {
      struct rlimit value{};
      ::getrlimit(RLIMIT_FSIZE, &value);
      value.rlim_cur = is_on ? 100'000 : value.rlim_max;
      ::setrlimit(RLIMIT_FSIZE, &value);
    };
    return check_full_disk(folder_, [&] { limit(true); }, [&] { limit(false); });
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(TuningDatabaseRefusalTest, AFullDiskIsSurvived) {
  expect_on_tmpfs(folder_, "size=4m,mode=0700", [&] {
    const fs::path filler = folder_ / "filler";
    return check_full_disk(
        folder_,
        [&] {
          std::ofstream stream(filler, std::ios::binary);
          const std::string page(4096, 'f');
          while (stream.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) continue;
        },
        [&] { fs::remove(filler); });
  });
}

TEST_F(TuningDatabaseRefusalTest, AReadOnlyFileSystemIsRead) {
  expect_on_tmpfs(folder_, "size=4m,mode=0700", [&] {
    TuningDatabase before(folder_, kAlways);
    before.record({tuned_entry(1)});
    REQUIRE_IN_CHILD(::mount("none", folder_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "mode=0700") == 0);
    TuningDatabase after(folder_, kAlways);
    for (TuningDatabase* database : {&before, &after}) {
      REQUIRE_IN_CHILD(database->find(tuned_key(1)) != nullptr);
      REQUIRE_IN_CHILD(database->record({tuned_entry(2)})[0].kind == MergeOutcome::Kind::added);
      REQUIRE_IN_CHILD(database->find(tuned_key(2)) != nullptr);
      REQUIRE_IN_CHILD(database->problem().find("Read-only file system") != std::string::npos);
      REQUIRE_IN_CHILD(database->remove_if([](const TuningEntry&) { return true; }).problems.size() == 1);
      REQUIRE_IN_CHILD(database->find(tuned_key(1)) != nullptr);
    }
    return 0;
  });
}

TEST_F(TuningDatabaseRefusalTest, AReadOnlyFolderIsReadAndOtherwiseLeftAlone) {
  ChildProcess child([&] {
    REQUIRE_IN_CHILD(become_unprivileged(directory_.path()));
    TuningDatabase(folder_).record({tuned_entry(1)});
    REQUIRE_IN_CHILD(::chmod(folder_.c_str(), 0500) == 0);
    TuningDatabase database(folder_, kAlways);
    database.record({tuned_entry(2)});
    REQUIRE_IN_CHILD(database.problem().find("Permission denied") != std::string::npos);
    REQUIRE_IN_CHILD(database.find(tuned_key(1)) != nullptr);
    REQUIRE_IN_CHILD(database.find(tuned_key(2)) != nullptr);
    REQUIRE_IN_CHILD(TuningDatabase(folder_).find(tuned_key(2)) == nullptr);
    REQUIRE_IN_CHILD(::chmod(folder_.c_str(), 0) == 0);
    TuningDatabase blind(folder_, kAlways);
    REQUIRE_IN_CHILD(blind.find(tuned_key(1)) == nullptr);
    blind.record({tuned_entry(3)});
    REQUIRE_IN_CHILD(blind.find(tuned_key(3)) != nullptr);
    REQUIRE_IN_CHILD(database.find(tuned_key(1)) != nullptr);
    REQUIRE_IN_CHILD(blind.list()[0].problem.find("Permission denied") != std::string::npos);
    REQUIRE_IN_CHILD(::chmod(folder_.c_str(), 0700) == 0);
    REQUIRE_IN_CHILD(blind.find(tuned_key(1)) != nullptr);
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(TuningDatabaseRefusalTest, WhatOthersCouldWriteIsRefused) {
  TuningDatabase(folder_).record({tuned_entry(1)});
  const auto problem = [&] {
    TuningDatabase database(folder_);
    EXPECT_EQ(database.find(tuned_key(1)), nullptr);
    return database.problem();
  };
  ASSERT_EQ(::chmod(file_.c_str(), 0622), 0);
  EXPECT_THAT(problem(), HasSubstr("is refused: other users"));
  ASSERT_EQ(::chmod(file_.c_str(), 0644), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  EXPECT_THAT(problem(), HasSubstr("is refused: other users"));
  TuningDatabase database(folder_);
  const std::string text = read_text(file_);
  database.record({tuned_entry(2)});
  EXPECT_THAT(database.problem(), HasSubstr("is refused"));
  EXPECT_EQ(read_text(file_), text);
}

TEST_F(TuningDatabaseRefusalTest, WhatIsNoFileIsLeftAlone) {
  fs::create_directories(folder_);
  fs::permissions(folder_, fs::perms::owner_all);
  const auto check = [&](const char* expected) {
    TuningDatabase database(folder_, kAlways);
    EXPECT_EQ(database.find(tuned_key(1)), nullptr);
    EXPECT_THAT(database.problem(), HasSubstr(expected));
    database.record({tuned_entry(1)});
    EXPECT_NE(database.find(tuned_key(1)), nullptr);
    EXPECT_THAT(database.problem(), HasSubstr("memory only"));
    fs::remove_all(file_);
  };
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  check("is no regular file");
  fs::create_directory(file_);
  check("is no regular file");
  fs::create_symlink("/etc/passwd", file_);
  check("cannot be opened");
  {
    std::ofstream(file_) << "x";
    fs::resize_file(file_, std::uintmax_t{1} << 40);
    fs::permissions(file_, fs::perms::owner_all);
  }
  check("more than any tuning database");
}

TEST_F(TuningDatabaseRefusalTest, WithoutAFolderThereIsMemory) {
  TuningDatabase database("");
  EXPECT_EQ(database.find(tuned_key(1)), nullptr);
  database.record({tuned_entry(1)});
  EXPECT_NE(database.find(tuned_key(1)), nullptr);
  EXPECT_THAT(database.problem(), HasSubstr("set KILN_CACHE_DIR"));
  EXPECT_THAT(database.list(), SizeIs(1));
  database.remove_if([](const TuningEntry&) { return true; });
  EXPECT_EQ(database.find(tuned_key(1)), nullptr);
}

}  // namespace
}  // namespace kiln::test
