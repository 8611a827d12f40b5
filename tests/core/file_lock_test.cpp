#include "core/file_lock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child_process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

class FileLockTest : public ::testing::Test {
 protected:
  const TemporaryDirectory temporary_;
  const FileDescriptor directory_{::open(temporary_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};

  bool exists(const std::string& name) const { return std::filesystem::exists(temporary_.path() / name); }
};

TEST_F(FileLockTest, OnlyOneHoldsAndNothingIsLeftBehind) {
  // Holders remove the file that others wait on: each must notice that what it got is no longer the lock. A pruner
  // interferes.
  constexpr int kThreads = 6;
  constexpr int kRounds = 400;
  std::atomic<int> holders{0};
  std::atomic<int> violations{0};
  std::atomic<int> pruned{0};
  std::atomic<bool> done{false};
  int total = 0;  // guarded by the lock alone
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const auto held = LockFile::acquire(directory_, "a.lock");
        if (!held) {
          ++violations;
          continue;
        }
        violations += ++holders != 1;
        ++total;
        std::this_thread::yield();
        --holders;
      }
    });
  std::thread pruner([&] {
    while (!done) {
      const auto held = LockFile::try_acquire_existing(directory_, "a.lock");
      if (!held) continue;
      violations += ++holders != 1;
      ++pruned;
      --holders;
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  pruner.join();
  EXPECT_EQ(violations, 0) << "after " << pruned << " prunings";
  EXPECT_EQ(total, kThreads * kRounds);
  EXPECT_FALSE(exists("a.lock"));
}

TEST_F(FileLockTest, ProcessesExcludeEachOther) {
  constexpr int kProcesses = 4;
  constexpr int kRounds = 300;
  const auto inside = temporary_.path() / "inside";
  std::vector<ChildProcess> children;
  for (int process = 0; process < kProcesses; ++process)
    children.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const auto held = LockFile::acquire(directory_, "a.lock");
        if (!held) return 1;
        // Creating it exclusively fails while another is inside.
        const FileDescriptor marker(::open(inside.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
        if (!marker) return 2;
        if (::unlink(inside.c_str()) != 0) return 3;
      }
      return 0;
    });
  for (ChildProcess& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(exists("a.lock"));
}

TEST_F(FileLockTest, TryingDoesNotWaitNorCreate) {
  EXPECT_FALSE(LockFile::try_acquire_existing(directory_, "a.lock"));
  EXPECT_FALSE(exists("a.lock"));
  {
    const auto held = LockFile::acquire(directory_, "a.lock");
    ASSERT_TRUE(held);
    EXPECT_FALSE(LockFile::try_acquire_existing(directory_, "a.lock"));
    EXPECT_TRUE(LockFile::acquire(directory_, "b.lock"));
  }
  EXPECT_FALSE(exists("a.lock"));
  EXPECT_FALSE(exists("b.lock"));
}

TEST_F(FileLockTest, AForkedChildDoesNotKeepTheLock) {
  int release[2];
  ASSERT_EQ(::pipe(release), 0);
  const auto open_plain = [&] {
    return FileDescriptor(::open((temporary_.path() / "plain").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  };
  const FileDescriptor ours = open_plain();
  const FileDescriptor other = open_plain();
  ASSERT_EQ(lock(ours), LockResult::locked);
  // The child has a copy of every descriptor, and keeps it until its pipe ends.
  ChildProcess child([&] {
    ::close(release[1]);
    char byte = 0;
    return ::read(release[0], &byte, 1) == 0 ? 0 : 1;
  });
  EXPECT_EQ(try_lock(other), LockResult::busy);
  unlock(ours);
  EXPECT_EQ(try_lock(other), LockResult::locked);
  ::close(release[1]);
  EXPECT_EQ(child.wait(), 0);
  ::close(release[0]);
}

TEST_F(FileLockTest, ADirectoryThatIsGoneGivesNoLock) {
  std::filesystem::remove_all(temporary_.path());
  EXPECT_FALSE(LockFile::acquire(directory_, "a.lock"));
  EXPECT_FALSE(LockFile::try_acquire_existing(directory_, "a.lock"));
}

}  // namespace
}  // namespace kiln::test
