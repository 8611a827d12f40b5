#include "registry/inspection/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/errors.hpp"

namespace kiln::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
Comparison compare_vectors(std::vector<T> actual, std::vector<T> expected, DType dtype, Tolerance tolerance = {}) {
  const Dims shape{static_cast<std::int64_t>(actual.size())};
  return compare(dense_view(actual.data(), dtype, shape), dense_view(expected.data(), dtype, shape), tolerance);
}

TEST(ComparisonTest, AcceptsWithinTheTolerance) {
  const Comparison result = compare_vectors<float>({1, 2.25F, 100}, {1, 2, 101}, DType::f32, {0.01, 0.25});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.num_elements, 3);
  EXPECT_DOUBLE_EQ(result.max_error, 1.0);
  EXPECT_EQ(result.worst_index, 1);  // 0.25 of 0.27 allowed is nearer the limit than 1 of 1.26
}

TEST(ComparisonTest, FindsTheWorstElement) {
  const Comparison result = compare_vectors<float>({1, 5, 4}, {1, 2, 3}, DType::f32, {0, 0.5});
  EXPECT_EQ(result.num_wrong, 2);
  EXPECT_EQ(result.worst_index, 1);
  EXPECT_EQ(result.worst_actual, 5);
  EXPECT_EQ(result.worst_expected, 2);
}

TEST(ComparisonTest, NanMatchesNanAndInfinitiesMustBeTheSame) {
  EXPECT_TRUE(compare_vectors<float>({kNan, kInf, -kInf}, {kNan, kInf, -kInf}, DType::f32).ok());
  const Tolerance wide{1e3, 1e3};
  EXPECT_FALSE(compare_vectors<float>({kNan}, {1}, DType::f32, wide).ok());
  EXPECT_FALSE(compare_vectors<float>({1}, {kNan}, DType::f32, wide).ok());
  EXPECT_FALSE(compare_vectors<float>({kInf}, {1}, DType::f32, wide).ok());
  EXPECT_FALSE(compare_vectors<float>({1}, {kInf}, DType::f32, wide).ok());
  EXPECT_FALSE(compare_vectors<float>({kInf}, {-kInf}, DType::f32, wide).ok());
  EXPECT_TRUE(compare_vectors<float>({0.0F}, {-0.0F}, DType::f32).ok());
}

TEST(ComparisonTest, SixtyFourBitIntegersAreExact) {
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(compare_vectors<std::int64_t>({large}, {large}, DType::i64).ok());
  EXPECT_FALSE(compare_vectors<std::int64_t>({large}, {large - 1}, DType::i64).ok());
  EXPECT_FALSE(compare_vectors<std::uint64_t>({~std::uint64_t{0}}, {~std::uint64_t{0} - 1}, DType::u64).ok());
}

TEST(ComparisonTest, ReadsNarrowFormats) {
  EXPECT_DOUBLE_EQ(compare_vectors<std::uint16_t>({0x3c00}, {0x4000}, DType::f16).max_error, 1.0);   // 1 and 2
  EXPECT_DOUBLE_EQ(compare_vectors<std::uint16_t>({0x3f80}, {0x4000}, DType::bf16).max_error, 1.0);  // 1 and 2
  EXPECT_TRUE(compare_vectors<std::uint8_t>({0x7f}, {0xff}, DType::fp8e4m3).ok());                   // both NaN
  EXPECT_FALSE(compare_vectors<std::uint8_t>({0x7c}, {0x7b}, DType::fp8e5m2, {1, 1}).ok());  // infinity and 57344
}

TEST(ComparisonTest, NoElementsAreRight) {
  const Comparison result = compare_vectors<float>({}, {}, DType::f32);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.worst_index, -1);
}

TEST(ComparisonTest, DifferentShapesAreOurFault) {
  float data[2] = {};
  EXPECT_THROW(compare(dense_view(data, DType::f32, Dims{2}), dense_view(data, DType::f32, Dims{1}), {}),
               InternalError);
}

TEST(ComparisonTest, CoordinatesOfAnIndex) {
  EXPECT_EQ(coordinates(7, Dims{3, 4}), "[1, 3]");
  EXPECT_EQ(coordinates(0, Dims{}), "[]");
}

}  // namespace
}  // namespace kiln::test
