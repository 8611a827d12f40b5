#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <latch>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/disk_store.hpp"
#include "tests/core/store_contents.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

/// A file that processes append a byte to, so that its size counts what all of them did.
class SharedCounter {
 public:
  explicit SharedCounter(fs::path path) : path_(std::move(path)) { increment(0); }
  void increment(std::size_t count = 1) const {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const std::string bytes(count, 'x');
    if (::write(file, bytes.data(), count) != static_cast<ssize_t>(count)) throw std::runtime_error("cannot count");
    ::close(file);
  }
  std::uintmax_t value() const { return fs::file_size(path_); }

 private:
  fs::path path_;
};

class DiskStoreTortureTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path() / "store";
};

TEST_F(DiskStoreTortureTest, EightProcessesBuildEachOfFiftyKeysOnce) {
  constexpr int kProcesses = 8;
  constexpr int kKeys = 50;
  const SharedCounter builds(directory_.path() / "builds");
  std::vector<ChildProcess> children;
  for (int process = 0; process < kProcesses; ++process)
    children.emplace_back([&, process] {
      DiskStore store(root_, kAmpleBytes);
      for (int i = 0; i < kKeys; ++i) {
        // Half of them meet on every key, half come from the other end.
        const int number = process % 2 == 0 ? i : kKeys - 1 - i;
        const auto payload = store.read_or_build(key_of(number), [&] {
          builds.increment();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return payload_of(number, 10'000);
        });
        REQUIRE_IN_CHILD(payload == payload_of(number, 10'000));
      }
      REQUIRE_IN_CHILD(store.problem().empty());
      return 0;
    });
  for (ChildProcess& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(builds.value(), static_cast<std::uintmax_t>(kKeys));
  EXPECT_EQ(DiskStore(root_, kAmpleBytes).list(true).size(), static_cast<std::size_t>(kKeys));
  EXPECT_EQ(count_files(root_ / "locks"), 0);
  EXPECT_EQ(count_files(root_ / "staging"), 0);
}

TEST_F(DiskStoreTortureTest, SixteenThreadsBuildEachOfFiftyKeysOnce) {
  constexpr int kThreads = 16;
  constexpr int kKeys = 50;
  DiskStore first(root_, kAmpleBytes);
  DiskStore second(root_, kAmpleBytes);
  std::vector<std::atomic<int>> builds(kKeys);
  std::atomic<int> wrong{0};
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      DiskStore& store = thread % 2 == 0 ? first : second;
      start.arrive_and_wait();
      for (int number = 0; number < kKeys; ++number) {
        const auto payload = store.read_or_build(key_of(number), [&] {
          ++builds[static_cast<std::size_t>(number)];
          return payload_of(number);
        });
        wrong += payload != payload_of(number);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (const std::atomic<int>& count : builds) EXPECT_EQ(count, 1);
  EXPECT_EQ(first.problem(), "");
}

TEST_F(DiskStoreTortureTest, AWriterKilledAtAnyMomentLeavesAUsableStore) {
  constexpr int kRounds = 120;
  constexpr int kKeys = 20;
  constexpr std::size_t kPayloadBytes = 200'000;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<Bytes> payloads;
  for (int number = 0; number < kKeys; ++number) payloads.push_back(payload_of(number, kPayloadBytes));
  // Small enough that the writers prune too.
  constexpr std::int64_t kCapacityBytes = 12 * static_cast<std::int64_t>(kPayloadBytes);

  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const auto first = static_cast<int>(random() % kKeys);
    ChildProcess writer([&] {
      DiskStore store(root_, kCapacityBytes);
      const char byte = 'r';
      REQUIRE_IN_CHILD(::write(ready[1], &byte, 1) == 1);
      for (int i = first;; ++i) {
        const int number = i % kKeys;
        store.read_or_build(key_of(number), [&] { return payloads[static_cast<std::size_t>(number)]; });
        if (i % 3 == 0) store.write(key_of(number), payloads[static_cast<std::size_t>(number)]);
      }
    });
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 6000));
    ASSERT_EQ(writer.kill(), -SIGKILL);

    DiskStore store(root_, kCapacityBytes);
    ASSERT_EQ(store.state(), DiskStore::State::usable) << store.problem();
    for (const DiskStore::Entry& entry : store.list(true)) ASSERT_TRUE(entry.intact) << entry.key.hex();
    for (int number = 0; number < kKeys; ++number) {
      const auto payload = store.read(key_of(number));
      ASSERT_TRUE(!payload || *payload == payloads[static_cast<std::size_t>(number)]) << number;
    }
    // The keys it may have held, and one it had not come to.
    for (const int number : {first, (first + 1) % kKeys, (first + 7) % kKeys})
      ASSERT_EQ(store.read_or_build(key_of(number), [&] { return payloads[static_cast<std::size_t>(number)]; }),
                payloads[static_cast<std::size_t>(number)]);
    ASSERT_EQ(store.problem(), "");
    if (round % 10 == 9) {
      store.prune(kCapacityBytes);
      ASSERT_EQ(count_files(root_ / "staging"), 0);
      ASSERT_EQ(count_files(root_ / "locks"), 0);
      std::int64_t total_bytes = 0;
      for (const DiskStore::Entry& entry : store.list(false)) total_bytes += entry.size_bytes;
      ASSERT_LE(total_bytes, kCapacityBytes);
    }
    if (round % 40 == 39) store.clear();
  }
}

TEST_F(DiskStoreTortureTest, TheDeathOfAHolderReleasesItsKey) {
  const SharedCounter started(directory_.path() / "started");
  ChildProcess holder([&] {
    DiskStore store(root_, kAmpleBytes);
    store.read_or_build(key_of(0), [&]() -> Bytes {
      started.increment();
      while (true) ::pause();
    });
    return 0;
  });
  while (started.value() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // Waits for the holder, as a lock that is not one would not.
  ChildProcess waiter([&] {
    DiskStore store(root_, kAmpleBytes);
    REQUIRE_IN_CHILD(store.read_or_build(key_of(0), [&] { return started.increment(), payload_of(0); }) ==
                     payload_of(0));
    REQUIRE_IN_CHILD(store.problem().empty());
    return 0;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(started.value(), 1U) << "two builds of one key at once";
  EXPECT_EQ(count_files(root_ / "locks"), 1);
  EXPECT_EQ(DiskStore(root_, kAmpleBytes).prune(kAmpleBytes).entries, 0);
  EXPECT_EQ(count_files(root_ / "locks"), 1) << "a lock that is held was pruned";
  holder.kill();
  EXPECT_EQ(waiter.wait(), 0);
  EXPECT_EQ(started.value(), 2U);
  EXPECT_EQ(count_files(root_ / "locks"), 0);
}

TEST_F(DiskStoreTortureTest, OtherKeysDoNotWaitForALongBuild) {
  DiskStore store(root_, kAmpleBytes);
  // Each build ends only after the other began: were they serialised, neither would.
  std::promise<void> first_began;
  std::promise<void> second_began;
  const auto build = [](std::promise<void>& mine, std::promise<void>& other) {
    mine.set_value();
    if (other.get_future().wait_for(std::chrono::seconds(20)) != std::future_status::ready)
      throw std::runtime_error("serialised");
    return payload_of(0);
  };
  std::thread other(
      [&] { EXPECT_NO_THROW(store.read_or_build(key_of(1), [&] { return build(second_began, first_began); })); });
  EXPECT_NO_THROW(store.read_or_build(key_of(2), [&] { return build(first_began, second_began); }));
  other.join();
}

TEST_F(DiskStoreTortureTest, StagingFilesGoWithTheirWriters) {
  DiskStore store(root_, kAmpleBytes);
  ASSERT_TRUE(store.write(key_of(0), payload_of(0)));
  const fs::path dead = root_ / "staging" / "1-0";
  const fs::path alive = root_ / "staging" / (std::to_string(::getpid()) + "-99999");
  std::ofstream(dead) << "KILNDISK and half an entry";
  const int file = ::open(alive.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  store.prune(kAmpleBytes);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive));
  ::close(file);
  store.clear();
  EXPECT_FALSE(fs::exists(alive));
}

TEST_F(DiskStoreTortureTest, ReadersWritersAndPrunersTogether) {
  constexpr int kKeys = 40;
  constexpr std::int64_t kCapacityBytes = 10 * 1056;
  DiskStore store(root_, kCapacityBytes);
  std::atomic<int> wrong{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 150; ++i) {
        const int number = (i * 7 + thread * 13) % kKeys;
        wrong +=
            store.read_or_build(key_of(number), [&] { return payload_of(number, 1000); }) != payload_of(number, 1000);
      }
    });
  std::thread pruner([&] {
    for (int i = 0; !done; ++i) {
      if (i % 5 == 0) store.clear();
      store.prune(kCapacityBytes / 2);
      wrong += static_cast<int>(store.remove_damaged().entries);
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  pruner.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store.problem(), "");
}

}  // namespace
}  // namespace kiln::test
