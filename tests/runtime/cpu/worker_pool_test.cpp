#include "runtime/cpu/worker_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

namespace kiln::test {
namespace {

using testing::Each;

/// Never destroyed, as its contract says.
WorkerPool& pool_of(int size) {
  static auto& kept = *new std::vector<WorkerPool*>;
  return *kept.emplace_back(new WorkerPool(size));
}

void wait_us(int us) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
  while (std::chrono::steady_clock::now() < until) {
  }
}

TEST(WorkerPool, CallsEveryIndexOnceWhateverTheSizes) {
  for (const int size : {1, 2, 3, 8}) {
    WorkerPool& pool = pool_of(size);
    for (const std::int64_t begin : {0, 5})
      for (const std::int64_t length : {0, 1, 2, 7, 64, 1000})
        for (const std::int64_t piece : {1, 3, 64, 5000}) {
          std::vector<std::atomic<int>> counts(static_cast<std::size_t>(begin + length));
          pool.run(begin, begin + length, piece, [&](std::int64_t first, std::int64_t last) {
            EXPECT_LT(first, last);
            for (std::int64_t i = first; i < last; ++i) counts[static_cast<std::size_t>(i)].fetch_add(1);
          });
          for (std::int64_t i = 0; i < begin + length; ++i)
            ASSERT_EQ(counts[static_cast<std::size_t>(i)], i < begin ? 0 : 1)
                << size << " threads, [" << begin << ", " << begin + length << ") by " << piece << ", index " << i;
        }
  }
}

TEST(WorkerPool, ManyCallersAtOnceGetEachTheirOwn) {
  WorkerPool& pool = pool_of(4);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 300; ++round) {
        const std::int64_t length = 1 + (caller * 37 + round) % 50;
        std::vector<int> counts(static_cast<std::size_t>(length), 0);  // plain: each index is one thread's
        pool.run(0, length, 1 + round % 3, [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t i = first; i < last; ++i) ++counts[static_cast<std::size_t>(i)];
          if (round % 16 == 0) wait_us(20);
        });
        for (const int count : counts) wrong += count != 1;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(WorkerPool, WorkersHelpAsleepAndAwake) {
  WorkerPool& pool = pool_of(2);
  const auto caller = std::this_thread::get_id();
  for (const int pause_us : {0, 5000}) {
    std::atomic<bool> is_helped{false};
    for (int round = 0; round < 200 && !is_helped; ++round) {
      std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
      pool.run(0, 40, 1, [&](std::int64_t, std::int64_t) {
        if (std::this_thread::get_id() != caller) is_helped = true;
        wait_us(100);
      });
    }
    EXPECT_TRUE(is_helped) << "after a pause of " << pause_us << " us";
  }
  EXPECT_EQ(pool.num_workers(), 1);
}

TEST(WorkerPool, OnePieceOrOneThreadStartsNobody) {
  WorkerPool& pool = pool_of(4);
  const auto caller = std::this_thread::get_id();
  pool.run(0, 100, 100, [&](std::int64_t, std::int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  EXPECT_EQ(pool.num_workers(), 0);
  WorkerPool& alone = pool_of(1);
  alone.run(0, 100, 1, [&](std::int64_t, std::int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  EXPECT_EQ(alone.num_workers(), 0);
}

TEST(WorkerPool, TheFirstExceptionComesOutAndEndsTheRest) {
  WorkerPool& pool = pool_of(3);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> calls{0};
    EXPECT_THROW(pool.run(0, 100'000, 1,
                          [&](std::int64_t, std::int64_t) {
                            ++calls;
                            wait_us(10);
                            throw std::runtime_error("piece");
                          }),
                 std::runtime_error);
    EXPECT_LE(calls, 3) << "one for each thread";
    std::vector<int> counts(50, 0);
    pool.run(0, 50, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) ++counts[static_cast<std::size_t>(i)];
    });
    EXPECT_THAT(counts, Each(1)) << "the pool serves on";
  }
}

TEST(WorkerPool, CallersDoWithoutWorkersForAWhileBehindAStall) {
  WorkerPool& pool = pool_of(2);
  const auto caller = std::this_thread::get_id();
  const auto is_helped = [&](int worker_ms, bool keeps_processor = false) {
    std::atomic<bool> helped{false};
    pool.run(0, 40, 1, [&](std::int64_t, std::int64_t) {
      if (std::this_thread::get_id() == caller) return wait_us(100);
      helped = true;
      if (keeps_processor) return wait_us(1000 * worker_ms);
      std::this_thread::sleep_for(std::chrono::milliseconds(worker_ms));  // as if it had lost its processor
    });
    return helped.load();
  };
  // Any thread here may lose its processor in earnest beside other tests.
  const auto comes_true = [](const auto& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < until)
      if (condition()) return true;
    return false;
  };
  ASSERT_TRUE(comes_true([&] { return is_helped(0); }));
  EXPECT_TRUE(comes_true([&] { return is_helped(30) && !is_helped(0); })) << "right behind a stall";
  EXPECT_TRUE(comes_true([&] { return is_helped(0); })) << "later";
  EXPECT_TRUE(comes_true([&] { return is_helped(30, true) && is_helped(0); })) << "what takes long is no stall";
}

TEST(WorkerPool, LooksForWorkForAWhileAndThenSleeps) {
  WorkerPool& pool = pool_of(2);
  const auto falls_asleep = [&] {
    for (int i = 0; i < 2000 && pool.is_awake(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return !pool.is_awake();
  };
  EXPECT_TRUE(falls_asleep()) << "after the test before";
  pool.run(0, 64, 1, [](std::int64_t, std::int64_t) { wait_us(50); });
  EXPECT_TRUE(falls_asleep());
}

}  // namespace
}  // namespace kiln::test
