#include "autotune/sample_set.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "core/errors.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

SampleSet one_to(int last) {
  SampleSet set;
  for (int i = last; i >= 1; --i) set.add(i);
  return set;
}

TEST(SampleSet, MedianIsTheMiddle) {
  EXPECT_DOUBLE_EQ(one_to(7).median(), 4);
  EXPECT_DOUBLE_EQ(one_to(8).median(), 4.5);
  EXPECT_THROW(SampleSet().median(), InternalError);
}

// The ranks are those of printed tables of the sign test at 5%, two-sided.
TEST(SampleSet, IntervalHasTheRanksOfTheSignTest) {
  EXPECT_EQ(one_to(5).median_interval(), Interval());
  EXPECT_EQ(one_to(6).median_interval(), (Interval{1, 6}));
  EXPECT_EQ(one_to(8).median_interval(), (Interval{1, 8}));
  EXPECT_EQ(one_to(9).median_interval(), (Interval{2, 8}));
  EXPECT_EQ(one_to(20).median_interval(), (Interval{6, 15}));
  EXPECT_EQ(one_to(25).median_interval(), (Interval{8, 18}));
  EXPECT_EQ(one_to(50).median_interval(), (Interval{18, 33}));
  EXPECT_EQ(one_to(100).median_interval(), (Interval{40, 61}));
}

TEST(SampleSet, IntervalIsSmoothWhereTheApproximationBegins) {
  const Interval exact = one_to(1000).median_interval();
  const Interval approximate = one_to(1001).median_interval();
  EXPECT_NEAR(exact.low, approximate.low, 2);
  EXPECT_NEAR(1000 - exact.high, 1001 - approximate.high, 2);
}

// Distribution-free: the median of a skewed distribution with far outliers is inside in 95% of the cases or a little
// more.
TEST(SampleSet, IntervalHoldsTheTrueMedian) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> skewed(0, 0.5);
  std::uniform_real_distribution<double> share(0, 1);
  for (const int size : {6, 12, 30, 90}) {
    int inside = 0;
    for (int run = 0; run < 4000; ++run) {
      SampleSet set;
      // Half of the mass stays below 1, whatever happens to the other half.
      for (int i = 0; i < size; ++i) {
        const double sample = skewed(random);
        set.add(sample > 1 && share(random) < 0.1 ? sample * 50 : sample);
      }
      inside += set.median_interval().low <= 1 && 1 <= set.median_interval().high;
    }
    EXPECT_GE(inside, 3760) << size;
    EXPECT_LE(inside, 3960) << size;
  }
}

TEST(SampleSet, CountsOutliersAndKeepsThem) {
  SampleSet set;
  for (int i = 0; i < 38; ++i) set.add(10 + 0.01 * i);
  const double before = set.median();
  set.add(31);
  set.add(2);
  const Outliers outliers = set.outliers();
  EXPECT_EQ(outliers.samples, 40U);
  EXPECT_EQ(outliers.slow, 1U);
  EXPECT_EQ(outliers.fast, 1U);
  EXPECT_NEAR(outliers.slowest, 31 / before, 0.1);
  EXPECT_EQ(set.size(), 40U);
  EXPECT_NEAR(set.median(), before, 0.02);
  EXPECT_THAT(to_string(outliers), Says("1 of 40 samples (2.5%) lie more than 6 MADs above the median", "up to 3.0x",
                                        "below the median", "count like any other"));
  EXPECT_EQ(to_string(one_to(20).outliers()), "");
}

TEST(SampleSet, EqualSamplesHaveAnIntervalOfNoWidth) {
  const std::vector<double> samples(12, 3.5);
  const SampleSet set(samples);
  EXPECT_EQ(set.median_interval(), (Interval{3.5, 3.5}));
  EXPECT_EQ(to_string(set.outliers()), "");
}

}  // namespace
}  // namespace kiln::test
