#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

#include "core/disk_store.hpp"
#include "tests/core/store_contents.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tmpfs.hpp"
#include "tests/support/unprivileged.hpp"

/// Disks that refuse: full, read-only, or another user's. Each check runs in a child, whose limits, identity and mounts
/// are its own.
namespace kiln::test {
namespace {

namespace fs = std::filesystem;

class DiskStoreRefusalTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path() / "store";
};

TEST_F(DiskStoreRefusalTest, ARelativeRootOutlivesAChangeOfDirectory) {
  ChildProcess child([&] {
    REQUIRE_IN_CHILD(::chdir(directory_.path().c_str()) == 0);
    DiskStore store("store", kAmpleBytes);
    REQUIRE_IN_CHILD(store.root().is_absolute());
    REQUIRE_IN_CHILD(::chdir("/") == 0);
    REQUIRE_IN_CHILD(store.write(key_of(0), payload_of(0)));
    fs::remove_all(root_);
    REQUIRE_IN_CHILD(store.write(key_of(0), payload_of(0)));
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(DiskStore(root_, kAmpleBytes).read(key_of(0)), payload_of(0));
}

TEST_F(DiskStoreRefusalTest, AReadOnlyDirectoryIsReadAndOtherwiseLeftAlone) {
  ChildProcess child([&] {
    REQUIRE_IN_CHILD(become_unprivileged(directory_.path()));
    REQUIRE_IN_CHILD(DiskStore(root_, kAmpleBytes).write(key_of(0), payload_of(0)));
    REQUIRE_IN_CHILD(::chmod(root_.c_str(), 0500) == 0);
    DiskStore store(root_, kAmpleBytes);
    REQUIRE_IN_CHILD(store.state() == DiskStore::State::read_only);
    REQUIRE_IN_CHILD(store.problem().find("read-only") != std::string::npos);
    REQUIRE_IN_CHILD(store.read(key_of(0)) == payload_of(0));
    REQUIRE_IN_CHILD(!store.write(key_of(1), payload_of(1)));
    REQUIRE_IN_CHILD(store.read_or_build(key_of(1), [] { return payload_of(1); }) == payload_of(1));
    REQUIRE_IN_CHILD(store.list(true).size() == 1);
    REQUIRE_IN_CHILD(store.clear().entries == 0);
    // It becomes unwritable only after it was opened.
    REQUIRE_IN_CHILD(::chmod(root_.c_str(), 0700) == 0);
    DiskStore late(root_, kAmpleBytes);
    for (const char* name : {"staging", "locks"}) fs::remove_all(root_ / name);
    REQUIRE_IN_CHILD(::chmod(root_.c_str(), 0500) == 0);
    REQUIRE_IN_CHILD(!late.write(key_of(1), payload_of(1)));
    REQUIRE_IN_CHILD(late.state() == DiskStore::State::read_only);
    REQUIRE_IN_CHILD(!late.problem().empty());
    REQUIRE_IN_CHILD(late.read(key_of(0)) == payload_of(0));
    REQUIRE_IN_CHILD(::chmod(root_.c_str(), 0700) == 0);
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(DiskStoreRefusalTest, UnreadableEntriesAreLeftAndUnreadableRootsUnavailable) {
  ChildProcess child([&] {
    REQUIRE_IN_CHILD(become_unprivileged(directory_.path()));
    DiskStore store(root_, kAmpleBytes);
    REQUIRE_IN_CHILD(store.write(key_of(0), payload_of(0)));
    REQUIRE_IN_CHILD(::chmod(entry_path(store, key_of(0)).c_str(), 0) == 0);
    REQUIRE_IN_CHILD(!store.read(key_of(0)));
    REQUIRE_IN_CHILD(store.read_or_build(key_of(0), [] { return payload_of(0); }) == payload_of(0));
    // Whose it is cannot be seen.
    REQUIRE_IN_CHILD(store.problem().find("not Kiln's") != std::string::npos);
    REQUIRE_IN_CHILD(::chmod(root_.c_str(), 0) == 0);
    for (const fs::path& path : {root_, root_ / "below"}) {
      DiskStore locked_out(path, kAmpleBytes);
      REQUIRE_IN_CHILD(locked_out.state() == DiskStore::State::unavailable);
      REQUIRE_IN_CHILD(!locked_out.problem().empty());
      REQUIRE_IN_CHILD(locked_out.read_or_build(key_of(0), [] { return payload_of(0); }) == payload_of(0));
    }
    REQUIRE_IN_CHILD(::chmod(root_.c_str(), 0700) == 0);
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(DiskStoreRefusalTest, ForeignOwnersAreRefusedAndRootIsNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  ASSERT_TRUE(DiskStore(root_, kAmpleBytes).write(key_of(0), payload_of(0)));
  ASSERT_EQ(::chown(root_.c_str(), kNobody, kNobody), 0);
  {
    DiskStore store(root_, kAmpleBytes);
    EXPECT_EQ(store.state(), DiskStore::State::refused);
    EXPECT_THAT(store.problem(), HasSubstr("owned by another user (uid 65534)"));
    EXPECT_EQ(store.read(key_of(0)), std::nullopt);
    EXPECT_FALSE(store.write(key_of(1), payload_of(1)));
  }
  // A cache that root put into an image, for everybody to read.
  ASSERT_EQ(::chown(root_.c_str(), 0, 0), 0);
  for (const fs::path& path :
       {directory_.path(), root_, entry_path(DiskStore(root_, kAmpleBytes), key_of(0)).parent_path()})
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(entry_path(DiskStore(root_, kAmpleBytes), key_of(0)).c_str(), 0644), 0);
  ChildProcess child([&] {
    REQUIRE_IN_CHILD(become_unprivileged());
    DiskStore store(root_, kAmpleBytes);
    REQUIRE_IN_CHILD(store.state() == DiskStore::State::read_only);
    REQUIRE_IN_CHILD(store.read(key_of(0)) == payload_of(0));
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

/// A write that the disk has no room for, and one that it has after all: in a child, since the limit is the process's.
int check_full_disk(const fs::path& root, const std::function<void()>& make_full,
                    const std::function<void()>& make_room) {
  constexpr std::size_t kLargeBytes = 300'000;
  DiskStore store(root, kAmpleBytes);
  REQUIRE_IN_CHILD(store.write(key_of(0), payload_of(0)));
  make_full();
  REQUIRE_IN_CHILD(!store.write(key_of(1), payload_of(1, kLargeBytes)));
  REQUIRE_IN_CHILD(store.state() == DiskStore::State::usable);
  REQUIRE_IN_CHILD(store.problem().find(root.string()) != std::string::npos);
  REQUIRE_IN_CHILD(store.read_or_build(key_of(1), [] { return payload_of(1, kLargeBytes); }) ==
                   payload_of(1, kLargeBytes));
  REQUIRE_IN_CHILD(count_files(root / "staging") == 0);
  REQUIRE_IN_CHILD(store.read(key_of(0)) == payload_of(0));
  REQUIRE_IN_CHILD(!store.read(key_of(1)));
  for (const DiskStore::Entry& entry : store.list(true)) REQUIRE_IN_CHILD(entry.intact);
  make_room();
  REQUIRE_IN_CHILD(store.write(key_of(1), payload_of(1, kLargeBytes)));
  REQUIRE_IN_CHILD(store.problem().empty());
  REQUIRE_IN_CHILD(store.read(key_of(1)) == payload_of(1, kLargeBytes));
  return 0;
}

TEST_F(DiskStoreRefusalTest, AFileSizeLimitIsSurvived) {
  ChildProcess child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const auto limit = [](rlim_t size_bytes) {
      struct rlimit value{};
      ::getrlimit(RLIMIT_FSIZE, &value);
      value.rlim_cur = size_bytes == RLIM_INFINITY ? value.rlim_max : size_bytes;
      ::setrlimit(RLIMIT_FSIZE, &value);
    };
    return check_full_disk(root_, [&] { limit(100'000); }, [&] { limit(RLIM_INFINITY); });
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(DiskStoreRefusalTest, AFullDiskIsSurvived) {
  expect_on_tmpfs(root_, "size=1m,mode=0700", [&] {
    // To the last page, and also with room for small files but not for the entry.
    for (const std::size_t free_pages : {std::size_t{0}, std::size_t{10}}) {
      const fs::path filler = root_ / "filler";
      const int result = check_full_disk(
          root_,
          [&] {
            std::ofstream stream(filler, std::ios::binary);
            const std::string page(4096, 'f');
            while (stream.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) continue;
            stream.close();
            fs::resize_file(filler, fs::file_size(filler) - free_pages * page.size());
          },
          [&] { fs::remove(filler); });
      if (result != 0) return result;
      DiskStore(root_, kAmpleBytes).clear();
    }
    return 0;
  });
}

TEST_F(DiskStoreRefusalTest, AFullDiskOfInodesIsSurvived) {
  expect_on_tmpfs(root_, "size=4m,nr_inodes=8,mode=0700", [&] {
    DiskStore store(root_, kAmpleBytes);
    int kept = 0;
    for (int number = 0; number < 10; ++number) {
      REQUIRE_IN_CHILD(store.read_or_build(key_of(number), [&] { return payload_of(number); }) == payload_of(number));
      kept += store.read(key_of(number)).has_value();
    }
    REQUIRE_IN_CHILD(kept < 10);
    REQUIRE_IN_CHILD(store.problem().find("space") != std::string::npos);
    for (int number = 0; number < 10; ++number) {
      const auto payload = store.read(key_of(number));
      REQUIRE_IN_CHILD(!payload || *payload == payload_of(number));
    }
    return 0;
  });
}

TEST_F(DiskStoreRefusalTest, AReadOnlyFileSystemIsRead) {
  expect_on_tmpfs(root_, "size=1m,mode=0700", [&] {
    DiskStore before(root_, kAmpleBytes);
    REQUIRE_IN_CHILD(before.write(key_of(0), payload_of(0)));
    REQUIRE_IN_CHILD(::mount("none", root_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "mode=0700") == 0);
    DiskStore after(root_, kAmpleBytes);
    REQUIRE_IN_CHILD(after.state() == DiskStore::State::read_only);
    for (DiskStore* store : {&before, &after}) {
      REQUIRE_IN_CHILD(store->read(key_of(0)) == payload_of(0));
      REQUIRE_IN_CHILD(store->read_or_build(key_of(1), [] { return payload_of(1); }) == payload_of(1));
      REQUIRE_IN_CHILD(!store->write(key_of(1), payload_of(1)));
      REQUIRE_IN_CHILD(store->state() == DiskStore::State::read_only);
      REQUIRE_IN_CHILD(store->problem().find(root_.string()) != std::string::npos);
      REQUIRE_IN_CHILD(store->prune(0).entries == 0);
      REQUIRE_IN_CHILD(store->list(true).size() == 1);
    }
    DiskStore missing(root_ / "absent", kAmpleBytes);
    REQUIRE_IN_CHILD(missing.state() == DiskStore::State::unavailable);
    REQUIRE_IN_CHILD(missing.problem().find("Read-only file system") != std::string::npos);
    return 0;
  });
}

}  // namespace
}  // namespace kiln::test
