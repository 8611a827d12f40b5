#include "autotune/watchdog.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
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
