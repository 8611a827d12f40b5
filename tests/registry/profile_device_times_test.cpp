// The bookkeeping of events, on events of the CPU, whose marks are reached as they are recorded.

#include "registry/profiling/profile_device_times.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

namespace kiln::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Streams of the CPU are told apart by nothing but this.
Stream stream_number(std::size_t number) {
  static char handles[8];
  return {Device::cpu(), &handles[number]};
}

struct Launch {
  ProfileTime before_start, after_start, before_stop, after_stop;
};

/// Records the events of a launch that takes some time.
Launch launch(ProfileDeviceTimes& times, std::vector<CallRecord>& calls, Stream stream,
              std::chrono::microseconds work) {
  Event start = times.take(Device::cpu(), calls), stop = times.take(Device::cpu(), calls);
  Launch launch;
  launch.before_start = Clock::now();
  start.record(stream);
  launch.after_start = Clock::now();
  if (work.count() > 0) std::this_thread::sleep_for(work);
  launch.before_stop = Clock::now();
  stop.record(stream);
  launch.after_stop = Clock::now();
  calls.emplace_back().stream = stream;
  times.add(calls.size() - 1, std::move(start), std::move(stop));
  return launch;
}

constexpr std::chrono::microseconds kRounding(1);  // each difference is cut to whole nanoseconds

void expect_within(const CallRecord& call, const Launch& launch) {
  EXPECT_GE(call.device_us, to_us(launch.before_stop - launch.after_start) - 1e-3);
  EXPECT_LE(call.device_us, to_us(launch.after_stop - launch.before_start) + 1e-3);
}

/// All times are off by as much as the clock's reference is, which depends on what else the machine does.
void expect_apart(const CallRecord& first, const Launch& first_launch, const CallRecord& call, const Launch& launch) {
  const ProfileDuration apart = call.device_start - first.device_start;
  EXPECT_GE(apart, launch.before_start - first_launch.after_start - kRounding);
  EXPECT_LE(apart, launch.after_start - first_launch.before_start + kRounding);
}

TEST(ProfileDeviceTimesTest, SaysWhenLaunchesBeganAndHowLongTheyTook) {
  ProfileDevices devices;
  ProfileDeviceTimes times(devices);
  std::mt19937_64 random(std::random_device{}());
  std::vector<CallRecord> calls;
  std::vector<Launch> launches;
  for (int i = 0; i < 40; ++i)
    launches.push_back(launch(times, calls, stream_number(random() % 3), std::chrono::microseconds(random() % 500)));
  for (const CallRecord& call : calls) EXPECT_LT(call.device_us, 0);
  times.read(calls, /*wait=*/true);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    expect_within(calls[i], launches[i]);
    expect_apart(calls[0], launches[0], calls[i], launches[i]);
  }
  // Later ones go on from there.
  launches.push_back(launch(times, calls, stream_number(0), std::chrono::microseconds(100)));
  times.read(calls, /*wait=*/false);
  expect_within(calls.back(), launches.back());
  expect_apart(calls[0], launches[0], calls.back(), launches.back());
}

TEST(ProfileDeviceTimesTest, ReadsOnItsWayWhenVeryManyWait) {
  ProfileDevices devices;
  ProfileDeviceTimes times(devices);
  std::vector<CallRecord> calls;
  constexpr std::size_t kCalls = 70'000;
  for (std::size_t i = 0; i < kCalls; ++i) launch(times, calls, stream_number(i % 2), std::chrono::microseconds(0));
  EXPECT_GE(calls.front().device_us, 0);  // read by now
  EXPECT_LT(calls.back().device_us, 0);
  times.read(calls, /*wait=*/true);
  for (const CallRecord& call : calls) ASSERT_GE(call.device_us, 0);
  for (std::size_t i = 2; i < kCalls; ++i) ASSERT_GE(calls[i].device_start, calls[i - 2].device_start);
}

TEST(ProfileDeviceTimesTest, ThreadsShareTheEventsThatWereMade) {
  ProfileDevices devices;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&devices] {
      ProfileDeviceTimes times(devices);
      std::vector<CallRecord> calls;
      for (int call = 0; call < 3000; ++call) launch(times, calls, stream_number(0), std::chrono::microseconds(0));
      times.read(calls, /*wait=*/true);
      for (const CallRecord& call : calls) ASSERT_GE(call.device_us, 0);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln::test
