#include "autotune/watchdog.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <stdexcept>
#include <thread>

namespace kiln::test {
namespace {

using namespace std::chrono_literals;

TEST(Watchdog, BarksOnceAtWhatTakesTooLong) {
  std::atomic<int> barks = 0;
  Watchdog watchdog([&] { ++barks; });
  {
    const Watchdog::Watch watch(watchdog, 0.02);
    while (barks == 0) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(barks, 1);
}

TEST(Watchdog, IsSilentOtherwise) {
  std::atomic<int> barks = 0;
  Watchdog watchdog([&] { ++barks; });
  for (int i = 0; i < 1000; ++i) const Watchdog::Watch watch(watchdog, 30);
  {
    const Watchdog::Watch watch(watchdog, std::numeric_limits<double>::infinity());
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(barks, 0);
}

TEST(Watchdog, AWatchOutlivesTheCallBack) {
  std::atomic<bool> begun = false, ended = false;
  Watchdog watchdog([&] {
    begun = true;
    std::this_thread::sleep_for(50ms);
    ended = true;
  });
  {
    const Watchdog::Watch watch(watchdog, 0.001);
    while (!begun) std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(ended);
}

TEST(Watchdog, WhatTheCallBackThrowsWaitsForWhoAsks) {
  std::atomic<int> barks = 0;
  Watchdog watchdog([&] {
    ++barks;
    throw std::runtime_error("no time to bark");
  });
  for (int round = 1; round <= 2; ++round) {
    {
      const Watchdog::Watch watch(watchdog, 0.001);
      while (barks < round) std::this_thread::sleep_for(1ms);
    }
    EXPECT_THROW(watchdog.rethrow_failure(), std::runtime_error);
    EXPECT_NO_THROW(watchdog.rethrow_failure());
  }
}

TEST(Watchdog, ALimitBeyondTheClocksRangeIsNone) {
  std::atomic<int> barks = 0;
  Watchdog watchdog([&] { ++barks; });
  for (const double limit_s : {1e10, 1e12, 1e300, std::numeric_limits<double>::infinity()}) {
    const Watchdog::Watch watch(watchdog, limit_s);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(barks, 0);
}

TEST(Watchdog, LimitsAreEachWatchsOwn) {
  std::atomic<int> barks = 0;
  Watchdog watchdog([&] { ++barks; });
  {
    const Watchdog::Watch long_watch(watchdog, 60);
  }
  {
    const Watchdog::Watch short_watch(watchdog, 0.01);
    while (barks == 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(barks, 1);
}

}  // namespace
}  // namespace kiln::test
