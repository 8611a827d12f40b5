// Percentiles, mean and total beside a sorted copy.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "registry/profiling/profile_report.hpp"

namespace kiln::test {
namespace {

TEST(TimeDistributionTest, IsWhatASortedCopySays) {
  std::mt19937_64 random(std::random_device{}());
  std::lognormal_distribution<double> times(2, 1);
  for (const std::size_t count : {1, 2, 3, 100, 101, 1000, 12345}) {
    std::vector<double> samples(count);
    std::generate(samples.begin(), samples.end(), [&] { return times(random); });
    const TimeDistribution distribution = distribution_of(samples);
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(distribution.count, count);
    EXPECT_EQ(distribution.min_us, sorted.front());
    EXPECT_EQ(distribution.max_us, sorted.back());
    const double total = std::accumulate(samples.begin(), samples.end(), 0.0);
    EXPECT_NEAR(distribution.total_us, total, 1e-9 * total);
    EXPECT_NEAR(distribution.mean_us, total / static_cast<double>(count), 1e-9 * total);
    for (const auto& [fraction, value] : {std::pair(0.5, distribution.p50_us), std::pair(0.99, distribution.p99_us)}) {
      // Between the neighbours of the place, and as far from them as the place is.
      const double place = fraction * static_cast<double>(count - 1);
      const double low = sorted[static_cast<std::size_t>(std::floor(place))];
      const double high = sorted[static_cast<std::size_t>(std::ceil(place))];
      EXPECT_NEAR(value, low + (place - std::floor(place)) * (high - low), 1e-9 * high);
    }
  }
  EXPECT_EQ(distribution_of({}).count, 0u);
  EXPECT_EQ(distribution_of({}).p99_us, 0);
}

}  // namespace
}  // namespace kiln::test
