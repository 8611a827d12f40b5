#include "autotune/warm_up.hpp"

#include <gtest/gtest.h>

#include <array>

namespace kiln::test {
namespace {

bool add(WarmUp& warm_up, double median_us) {
  return warm_up.add(std::array{median_us * 0.9, median_us, median_us * 3});
}

TEST(WarmUp, EndsWhenTimesNoLongerFall) {
  WarmUp warm_up({.share = 0.01, .time_us = 0});
  EXPECT_FALSE(add(warm_up, 300));
  EXPECT_FALSE(add(warm_up, 150));
  EXPECT_FALSE(add(warm_up, 110));
  EXPECT_FALSE(warm_up.stable());
  EXPECT_TRUE(add(warm_up, 109.5));
  EXPECT_TRUE(warm_up.stable());
}

TEST(WarmUp, OneWindowSaysNothing) {
  WarmUp warm_up({});
  EXPECT_FALSE(add(warm_up, 100));
  EXPECT_TRUE(add(warm_up, 104));
}

TEST(WarmUp, ShortTimesNeedOnlyTheAbsolutePrecision) {
  WarmUp exact({.share = 0.01, .time_us = 0}), usual({});
  EXPECT_FALSE(add(exact, 3));
  EXPECT_FALSE(add(exact, 2.6));
  EXPECT_FALSE(add(usual, 3));
  EXPECT_TRUE(add(usual, 2.6));
}

TEST(WarmUp, TimesThatFallForeverAreTakenAsTheyAre) {
  WarmUp warm_up({});
  double median_us = 1e6;
  for (int window = 1; window < WarmUp::kMostWindows; ++window) EXPECT_FALSE(add(warm_up, median_us *= 0.9));
  EXPECT_TRUE(add(warm_up, median_us * 0.9));
}

TEST(Precision, IsAShareOrATime) {
  const Precision precision;
  EXPECT_DOUBLE_EQ(precision.width_at(1000, 1), 10);
  EXPECT_DOUBLE_EQ(precision.width_at(10, 1), 0.5);
  EXPECT_DOUBLE_EQ(precision.width_at(0.5, 100), 0.005);  // a relative time of 0.5 where 1 lasts 100 us
  EXPECT_DOUBLE_EQ(precision.width_at(1, 5), 0.1);
}

}  // namespace
}  // namespace kiln::test
