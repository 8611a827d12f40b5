#include "autotune/reference_scale.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace kiln::test {
namespace {

TEST(ReferenceScale, FollowsTheLastTwoTurns) {
  ReferenceScale scale;
  scale.add_turn(std::vector<double>(5, 100));
  EXPECT_DOUBLE_EQ(scale.level().us, 100);
  EXPECT_DOUBLE_EQ(scale.level().error, 1);  // five samples have no interval
  scale.add_turn(std::vector<double>(5, 100));
  EXPECT_DOUBLE_EQ(scale.level().error, 0);
  for (int turn = 0; turn < 2; ++turn) scale.add_turn(std::vector<double>(5, 130));
  EXPECT_DOUBLE_EQ(scale.level().us, 130);
  EXPECT_DOUBLE_EQ(scale.median_us(), 115);
  EXPECT_NEAR(scale.drift(), 0.3, 1e-12);
}

TEST(ReferenceScale, NoiseIsNoDrift) {
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> disturbed(0, 0.04);
  ReferenceScale still, slowing;
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<double> samples;
    for (int i = 0; i < 5; ++i) samples.push_back(8 * disturbed(random));
    still.add_turn(samples);
    for (double& sample : samples) sample *= turn < 30 ? 1 : 1.2;
    slowing.add_turn(samples);
  }
  EXPECT_LT(still.drift(), 0.02);
  EXPECT_GT(slowing.drift(), 0.1);
}

TEST(ReferenceScale, NothingDriftsBeforeThereAreTwoTurns) {
  ReferenceScale scale;
  scale.add_turn(std::vector<double>(3, 100));
  EXPECT_EQ(scale.drift(), 0);
}

/// How far level() and between_turns() are from the truth, on average, where samples are off by `noise` and the truth
/// moves by `step` from turn to turn.
struct Errors {
  double level = 0, between_turns = 0;
};
Errors errors_of(double noise, double step) {
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> disturbed(0, noise);
  Errors errors;
  for (int run = 0; run < 200; ++run) {
    ReferenceScale scale;
    double truth = 100, before = 100;
    for (int turn = 0; turn < 16; ++turn) {
      before = truth;
      truth *= 1 + step;
      std::vector<double> samples;
      for (int i = 0; i < 5; ++i) samples.push_back(truth * disturbed(random));
      scale.add_turn(samples);
    }
    const double between = (before + truth) / 2;
    errors.level += std::abs(scale.level().us / between - 1) / 200;
    errors.between_turns += std::abs(scale.between_turns().us / between - 1) / 200;
  }
  return errors;
}

TEST(ReferenceScale, MoreTurnsHelpWhereNoiseIsStrong) {
  const Errors errors = errors_of(0.3, 0);
  EXPECT_LT(errors.level, 0.7 * errors.between_turns);
}

TEST(ReferenceScale, OldTurnsDoNotCountWhereTheMachineDrifts) {
  const Errors errors = errors_of(0.01, 0.02);
  EXPECT_DOUBLE_EQ(errors.level, errors.between_turns);
  EXPECT_LT(errors.level, 0.02);
}

}  // namespace
}  // namespace kiln::test
