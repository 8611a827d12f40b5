#include "runtime/event_timer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"

namespace kiln::test {
namespace {

TEST(EventTimer, CallsTheBodyOncePerSampleAndWarmUp) {
  int calls = 0;
  const auto samples = time_us(Stream::default_of(Device::cpu()), [&] { ++calls; }, {.warmup = 3, .samples = 7});
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(samples.size(), 7U);
}

TEST(EventTimer, MeasuresMicrosecondsOnTheCpu) {
  const auto samples =
      time_us(Stream::default_of(Device::cpu()), [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); },
              {.warmup = 0, .samples = 3});
  for (double sample : samples) {
    EXPECT_GE(sample, 2000.0);
    EXPECT_LT(sample, 2e6);
  }
}

TEST(EventTimer, RefusesCountsThatMeasureNothing) {
  const Stream stream = Stream::default_of(Device::cpu());
  EXPECT_THROW(time_us(stream, [] {}, {.warmup = 0, .samples = 0}), UsageError);
  EXPECT_THROW(time_us(stream, [] {}, {.warmup = -1, .samples = 1}), UsageError);
}

TEST(EventTimer, SummarisesByRank) {
  const TimingSummary odd = summarize({5, 1, 3, 2, 4});
  EXPECT_DOUBLE_EQ(odd.median_us, 3);
  EXPECT_DOUBLE_EQ(odd.min_us, 1);
  EXPECT_DOUBLE_EQ(odd.p10_us, 1.4);
  EXPECT_DOUBLE_EQ(odd.p90_us, 4.6);
  EXPECT_DOUBLE_EQ(summarize({1, 2}).median_us, 1.5);
  const TimingSummary single = summarize({7});
  EXPECT_DOUBLE_EQ(single.median_us, 7);
  EXPECT_DOUBLE_EQ(single.p90_us, 7);
  EXPECT_THROW(summarize({}), UsageError);
}

TEST(EventTimer, TimesWorkOnTheDevice) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  const OwnedStream stream(Device::cuda(0));
  const Tensor small = empty({1 << 10}, DType::u8, stream);
  const Tensor large = empty({1 << 30}, DType::u8, stream);
  for (bool flush : {true, false}) {
    const TimingOptions options{.warmup = 2, .samples = 11, .flush_l2 = flush};
    const double small_us = summarize(time_us(stream, [&] { memset_bytes(small, 1, stream); }, options)).median_us;
    const double large_us = summarize(time_us(stream, [&] { memset_bytes(large, 1, stream); }, options)).median_us;
    EXPECT_GT(small_us, 0);
    EXPECT_LT(small_us, 100) << "the flush or the host's launch cost is inside the interval";
    // A GiB takes 100 us at 10 TB/s, more than any device has.
    EXPECT_GT(large_us, 100);
    EXPECT_LT(large_us, 50'000);
  }
}

}  // namespace
}  // namespace kiln::test
