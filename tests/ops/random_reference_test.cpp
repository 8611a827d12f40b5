// The reference's numbers: Philox's published ones, splits of one stream, and the distributions they should have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/support/host_tensor.hpp"

namespace kiln::test {
namespace {

using Size = std::vector<std::int64_t>;
constexpr std::int64_t kCount = 1 << 20;

template <typename T>
std::vector<T> drawn(const std::string& op, std::int64_t count, Attributes attributes) {
  attributes.set("size", Size{count});
  if (attributes.find("seed") == nullptr) attributes.set("seed", std::int64_t{2026});
  return run_reference(op, {}, attributes).values<T>();
}

/// sqrt(n) times the largest distance between the empirical distribution and `cdf`: above 1.63 in one of a hundred
/// samples of the right distribution (Kolmogorov).
double kolmogorov(std::vector<double> values, const std::function<double(double)>& cdf) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]), below = static_cast<double>(i) / n;
    distance = std::max({distance, std::abs(expected - below), std::abs(expected - below - 1 / n)});
  }
  return distance * std::sqrt(n);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size() - 1);
}

TEST(RandomReferenceTest, TakesPhiloxsWordsInOrder) {
  // Random123's philox4x32 10 vector of counter 0 and key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  const Attributes zero{{"seed", std::int64_t{0}}};
  const auto uniform = drawn<double>("uniform", 4, zero);
  const std::uint32_t folded[] = {0x6627e8d5, ~0xe169c58d, ~0xbc57ac4c, ~0x9b00dbd8};
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(uniform[i], static_cast<double>(static_cast<float>(folded[i]) * 4.6566127342e-10F)) << i;

  Attributes wide = zero;
  wide.set("dtype", DType::f64);
  const auto doubles = drawn<double>("uniform", 2, wide);
  EXPECT_EQ(doubles[0], static_cast<double>(0xe169c58d6627e8d5U >> 11) * 0x1p-53);
  EXPECT_EQ(doubles[1], static_cast<double>(0x9b00dbd8bc57ac4cU >> 11) * 0x1p-53);

  Attributes integers = zero;
  integers.set("high", std::int64_t{65536});
  EXPECT_EQ(drawn<std::int64_t>("randint", 4, integers), (std::vector<std::int64_t>{0x6627, 0xe169, 0xbc57, 0x9b00}));
  integers.set("high", std::int64_t{1} << 32);
  EXPECT_EQ(drawn<std::int64_t>("randint", 2, integers), (std::vector<std::int64_t>{0xe169c58d, 0x9b00dbd8}));
  integers.set("low", std::numeric_limits<std::int64_t>::min());
  integers.set("high", std::numeric_limits<std::int64_t>::max());
  // 2^64 - 1 numbers: the product's upper half is the word less one, but for a word of 0.
  EXPECT_EQ(drawn<std::int64_t>("randint", 2, integers)[0], static_cast<std::int64_t>(0x6169c58d6627e8d4U));

  Attributes chance = zero;
  chance.set("p", 0.5);
  EXPECT_EQ(drawn<std::int64_t>("bernoulli", 4, chance), (std::vector<std::int64_t>{1, 0, 0, 0}));
}

TEST(RandomReferenceTest, AnOffsetContinuesAStream) {
  struct Split {
    std::string op;
    Attributes attributes;
    std::int64_t per_block;
  };
  for (const Split& split :
       {Split{"uniform", {}, 4}, Split{"normal", {}, 4}, Split{"normal", {{"dtype", DType::f64}}, 2},
        Split{"bernoulli", {}, 4}, Split{"randint", {{"high", std::int64_t{1000}}}, 4},
        Split{"randint", {{"high", std::int64_t{1} << 20}}, 2}}) {
    const auto whole = drawn<double>(split.op, 101, split.attributes);
    Attributes later = split.attributes;
    later.set("offset", std::int64_t{7});
    const auto rest = drawn<double>(split.op, 50, later);
    for (std::size_t i = 0; i < rest.size(); ++i)
      EXPECT_EQ(rest[i], whole[i + static_cast<std::size_t>(7 * split.per_block)]) << split.op << " " << i;
  }
}

TEST(RandomReferenceTest, SeedsDiffer) {
  for (const char* op : {"uniform", "normal"}) {
    const auto one = drawn<double>(op, 1000, {{"seed", std::int64_t{1}}});
    const auto other = drawn<double>(op, 1000, {{"seed", (std::int64_t{1} << 32) + 1}});
    std::size_t equal = 0;
    for (std::size_t i = 0; i < one.size(); ++i) equal += one[i] == other[i] ? 1 : 0;
    EXPECT_LT(equal, 3U) << op;
  }
}

TEST(RandomReferenceTest, UniformNumbersAreUniform) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto values = drawn<double>("uniform", kCount, {{"low", -1.0}, {"high", 3.0}, {"dtype", dtype}});
    EXPECT_GE(*std::min_element(values.begin(), values.end()), -1.0);
    EXPECT_LE(*std::max_element(values.begin(), values.end()), 3.0);
    EXPECT_NEAR(mean_of(values), 1, 5 * std::sqrt(16.0 / 12 / kCount));
    EXPECT_NEAR(variance_of(values), 16.0 / 12, 0.01);
    EXPECT_LT(kolmogorov(values, [](double x) { return (x + 1) / 4; }), 1.63);
  }
}

TEST(RandomReferenceTest, NormalNumbersAreNormal) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto values = drawn<double>("normal", kCount, {{"mean", 2.0}, {"std", 0.5}, {"dtype", dtype}});
    EXPECT_NEAR(mean_of(values), 2, 5 * 0.5 / std::sqrt(kCount));
    EXPECT_NEAR(variance_of(values), 0.25, 5 * 0.25 * std::sqrt(2.0 / kCount));
    EXPECT_LT(kolmogorov(values, [](double x) { return 0.5 * std::erfc(-(x - 2) / 0.5 / std::sqrt(2.0)); }), 1.63);
    // Neighbours share a radius; they are independent all the same.
    double together = 0;
    for (std::size_t i = 0; i < values.size(); i += 2) together += (values[i] - 2) * (values[i + 1] - 2);
    EXPECT_NEAR(together / (kCount / 2), 0, 5 * 0.25 / std::sqrt(kCount / 2));
  }
}

TEST(RandomReferenceTest, IntegersAreEquallyLikely) {
  for (const std::int64_t high : {std::int64_t{10}, std::int64_t{1} << 40}) {
    std::map<std::int64_t, double> counts;
    const std::int64_t width = high / 10;
    for (const std::int64_t value :
         drawn<std::int64_t>("randint", kCount, {{"low", std::int64_t{-5}}, {"high", high - 5}})) {
      ASSERT_GE(value, -5);
      ASSERT_LT(value, high - 5);
      ++counts[std::min<std::int64_t>((value + 5) / width, 9)];
    }
    double chi_square = 0;
    for (const auto& [tenth, count] : counts)
      chi_square += (count - kCount / 10.0) * (count - kCount / 10.0) / (kCount / 10.0);
    EXPECT_EQ(counts.size(), 10U);
    EXPECT_LT(chi_square, 21.7) << high;  // 9 degrees of freedom, 1%
  }
}

TEST(RandomReferenceTest, CoinsFallByTheirProbability) {
  for (const double p : {0.0, 0.1, 0.5, 1.0}) {
    const auto values = drawn<double>("bernoulli", kCount, {{"p", p}, {"dtype", DType::u8}});
    EXPECT_NEAR(mean_of(values), p, 5 * std::sqrt(p * (1 - p) / kCount)) << p;
  }
}

TEST(RandomReferenceTest, DropoutKeepsTheMean) {
  HostTensor ones(DType::f32, {kCount}, std::vector<double>(kCount, 1.0));
  const auto values = run_reference("dropout", {ones.view()}, {{"seed", std::int64_t{3}}, {"p", 0.2}}).values<double>();
  const double kept = static_cast<float>(1 / (1 - 0.2));
  for (const double value : values) ASSERT_TRUE(value == 0 || value == kept) << value;
  EXPECT_NEAR(mean_of(values), 1, 5 * std::sqrt(0.25 / kCount));

  HostTensor special(DType::f32, {3}, std::vector<double>{std::nan(""), INFINITY, 1});
  for (const double value :
       run_reference("dropout", {special.view()}, {{"seed", std::int64_t{3}}, {"p", 1.0}}).values<double>())
    EXPECT_EQ(value, 0);
  const auto same =
      run_reference("dropout", {special.view()}, {{"seed", std::int64_t{3}}, {"p", 0.0}}).values<double>();
  EXPECT_TRUE(std::isnan(same[0]));
  EXPECT_EQ(same[2], 1);
}

}  // namespace
}  // namespace kiln::test
