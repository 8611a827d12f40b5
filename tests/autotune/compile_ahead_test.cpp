#include "autotune/compile_ahead.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "core/interruption.hpp"

namespace kiln::test {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLong = 60s;

TEST(CompileAhead, CompilesEachOnce) {
  std::mutex mutex;
  std::map<std::size_t, int> compiled;
  CompileAhead ahead(
      [&](std::size_t candidate) {
        const std::lock_guard lock(mutex);
        ++compiled[candidate];
      },
      4);
  std::vector<std::size_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t first = 0; first < all.size(); ++first) {
    ahead.want(std::span(all).subspan(first));
    EXPECT_TRUE(ahead.wait_for(first, kLong, {}));
    EXPECT_TRUE(ahead.is_done(first));
  }
  EXPECT_EQ(compiled.size(), 100U);
  for (const auto& [candidate, times] : compiled) EXPECT_EQ(times, 1) << candidate;
}

TEST(CompileAhead, WorksOnSeveralAtOnce) {
  std::atomic<int> running = 0, most = 0;
  CompileAhead ahead(
      [&](std::size_t) {
        const int now = ++running;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
        std::this_thread::sleep_for(20ms);
        --running;
      },
      3);
  ahead.want(std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  ahead.wait_for_all(kLong, {});
  EXPECT_EQ(most, 3);
  EXPECT_EQ(running, 0);
  for (std::size_t candidate = 0; candidate < 9; ++candidate) EXPECT_TRUE(ahead.is_done(candidate));
}

TEST(CompileAhead, WhatCompilationThrowsReachesTheOneWhoWaits) {
  CompileAhead ahead(
      [](std::size_t candidate) {
        if (candidate == 1) throw CompileError("matmul", "BLOCK=1", "no");
      },
      2);
  ahead.want(std::vector<std::size_t>{0, 1, 2});
  EXPECT_TRUE(ahead.wait_for(0, kLong, {}));
  EXPECT_THROW(ahead.wait_for(1, kLong, {}), CompileError);
  EXPECT_THROW(ahead.wait_for(1, kLong, {}), CompileError);
  EXPECT_TRUE(ahead.wait_for(2, kLong, {}));
}

TEST(CompileAhead, WaitsForTheFirstOfSeveralThatIsDone) {
  std::binary_semaphore go_on(0);
  CompileAhead ahead(
      [&](std::size_t candidate) {
        if (candidate == 0) go_on.acquire();
        if (candidate == 2) throw CompileError("matmul", "BLOCK=2", "no");
      },
      2);
  const std::vector<std::size_t> all{0, 1, 2};
  ahead.want(all);
  EXPECT_EQ(ahead.wait_for_any(all, kLong, {}), 1U);
  EXPECT_EQ(ahead.wait_for_any(std::vector<std::size_t>{0, 2}, kLong, {}), 2U) << "a failure is an end as well";
  EXPECT_EQ(ahead.wait_for_any(std::span(all).first(1), 1ms, {}), std::nullopt);
  go_on.release();
  EXPECT_EQ(ahead.wait_for_any(std::span(all).first(1), kLong, {}), 0U);
  EXPECT_EQ(ahead.wait_for_any(all, kLong, {}), 0U);
}

TEST(CompileAhead, WhatIsNoLongerWantedIsLeftOut) {
  std::binary_semaphore begun(0), go_on(0);
  CompileAhead ahead(
      [&](std::size_t candidate) {
        if (candidate != 0) return;
        begun.release();
        go_on.acquire();
      },
      1);
  ahead.want(std::vector<std::size_t>{0, 1, 2});
  begun.acquire();
  ahead.want(std::vector<std::size_t>{2, 3});
  go_on.release();
  ahead.wait_for_all(kLong, {});
  EXPECT_TRUE(ahead.is_done(0));
  EXPECT_FALSE(ahead.is_done(1));
  EXPECT_TRUE(ahead.is_done(2));
  EXPECT_TRUE(ahead.is_done(3));
}

TEST(CompileAhead, AStopRequestEndsTheWait) {
  std::binary_semaphore begun(0), go_on(0);
  std::stop_source stop;
  CompileAhead ahead(
      [&](std::size_t) {
        begun.release();
        go_on.acquire();
      },
      1);
  ahead.want(std::vector<std::size_t>{0});
  begun.acquire();
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(ahead.wait_for(0, kLong, stop.get_token()));
  ahead.wait_for_all(kLong, stop.get_token());
  EXPECT_FALSE(ahead.is_done(0));
  go_on.release();
}

TEST(CompileAhead, TheEndInterruptsWhatHasBegun) {
  std::binary_semaphore begun(0);
  std::atomic<bool> was_interrupted = false;
  {
    CompileAhead ahead(
        [&](std::size_t) {
          begun.release();
          try {
            for (const auto start = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - start < kLong;)
              check_interrupt();
          } catch (const Interrupted&) {
            was_interrupted = true;
          }
        },
        1);
    ahead.want(std::vector<std::size_t>{0});
    begun.acquire();
    EXPECT_FALSE(ahead.wait_for(0, 1ms, {}));
  }
  EXPECT_TRUE(was_interrupted);
}

TEST(CompileAhead, NeedsAThread) {
  EXPECT_THROW(CompileAhead([](std::size_t) {}, 0), UsageError);
}

}  // namespace
}  // namespace kiln::test
