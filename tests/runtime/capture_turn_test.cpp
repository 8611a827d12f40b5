#include "runtime/capture_turn.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace kiln::test {
namespace {

TEST(CaptureTurn, CapturesAndWaitsAreNeverAtOneTime) {
  std::atomic<int> captures = 0, waits = 0, overlaps = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 300; ++i) {
          if (t % 2 == 0) {
            const CaptureTurn turn(Device::cuda(0));
            const CaptureTurn nested(Device::cuda(0));  // of another stream, by the same thread
            ++captures;
            if (waits > 0) ++overlaps;
            std::this_thread::yield();
            --captures;
          } else {
            const DeviceWaitTurn turn(Device::cuda(0));
            ++waits;
            if (captures > 0) ++overlaps;
            std::this_thread::yield();
            --waits;
          }
        }
      });
  }
  EXPECT_EQ(overlaps, 0);
}

TEST(CaptureTurn, AWaitGetsItsTurnBetweenCapturesThatNeverStop) {
  constexpr int kWaits = 50;
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 2; ++t)  // each begins before the other ends
    threads.emplace_back([&] {
      while (!is_over) {
        const CaptureTurn turn(Device::cuda(0));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const CaptureTurn nested(Device::cuda(0));  // would wait for this very thread, were it held off
      }
    });
  for (int i = 0; i < kWaits; ++i) EXPECT_NO_THROW(DeviceWaitTurn(Device::cuda(0))) << "it starved";
  is_over = true;
}

TEST(CaptureTurn, DevicesAreApart) {
  const CaptureTurn capture(Device::cuda(0));
  const DeviceWaitTurn wait(Device::cuda(1));
}

}  // namespace
}  // namespace kiln::test
