#include "core/shape_key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/errors.hpp"

namespace kiln::test {
namespace {

using Bucket = ShapeKeyRule::Bucket;

ShapeKey key_of(const std::vector<Dims>& shapes, const ShapeKeyRule& rule = {}) {
  std::vector<const Dims*> inputs;
  for (const Dims& shape : shapes) inputs.push_back(&shape);
  return shape_key(inputs, rule);
}

std::string text_of(const std::vector<Dims>& shapes, const ShapeKeyRule& rule = {}) {
  return to_string(key_of(shapes, rule));
}

TEST(ShapeKeyTest, IsExactWithoutARule) {
  EXPECT_EQ(text_of({{4096, 1024}, {}, {7}}), "4096x1024, (), 7");
  EXPECT_EQ(text_of({}), "");
  EXPECT_NE(key_of({{2, 3}}), key_of({{2}, {3}}));
  const Dims shape{3};
  const Dims* const inputs[] = {nullptr, &shape};
  EXPECT_EQ(to_string(shape_key(inputs)), "-, 3");
}

TEST(ShapeKeyTest, ARuleBucketsTheAxesItNames) {
  const ShapeKeyRule tokens{{{.input = 0, .axis = 0, .bucket = Bucket::power_of_two, .exact_up_to = 16}}};
  EXPECT_EQ(text_of({{1000, 512}, {1000, 512}}, tokens), "<=1024x512, 1000x512");
  EXPECT_EQ(text_of({{1024, 512}}, tokens), "<=1024x512");
  EXPECT_EQ(text_of({{1025, 512}}, tokens), "<=2048x512");
  EXPECT_EQ(text_of({{16, 512}}, tokens), "16x512");
  EXPECT_EQ(text_of({{17, 512}}, tokens), "<=32x512");

  const ShapeKeyRule all_but_last{{{.bucket = Bucket::any}, {.axis = -1, .bucket = Bucket::exact}}};
  EXPECT_EQ(text_of({{8, 9, 10}, {5}}, all_but_last), "*x*x10, 5");
}

TEST(ShapeKeyTest, BucketsHoldAtTheEndsOfTheRange) {
  const ShapeKeyRule rule{{{.bucket = Bucket::power_of_two}}};
  EXPECT_EQ(text_of({{0, 1, 2}}, {{{.bucket = Bucket::power_of_two, .exact_up_to = -1}}}), "<=0x<=1x<=2");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(text_of({{kMost}}, rule), "<=9223372036854775807");
  EXPECT_EQ(text_of({{std::int64_t{1} << 62}}, rule), "<=4611686018427387904");
}

TEST(ShapeKeyTest, TextReadsBack) {
  for (const char* text : {"", "()", "-", "4096x4096, <=1024x*, (), -", "*", "<=1, *x*x3", "-, -, 5"})
    EXPECT_EQ(to_string(parse_shape_key(text)), text);
  EXPECT_EQ(parse_shape_key(" 4x5 ,6"), key_of({{4, 5}, {6}}));
}

TEST(ShapeKeyTest, MalformedTextIsRefused) {
  for (const char* text : {"x", "4x", "x4", "4xx4", "a", "-4", "4,", ",4", "<=", "<4", "()x4", "4x()", "4 x 4", "**",
                           "99999999999999999999", "4;4", " ", "-x4"})
    EXPECT_THROW(parse_shape_key(text), UsageError) << text;
}

TEST(ShapeKeyTest, DistanceIsLogarithmic) {
  const auto distance = [](const char* a, const char* b) {
    return shape_distance(parse_shape_key(a), parse_shape_key(b));
  };
  EXPECT_EQ(distance("4096x64", "4096x64"), 0);
  EXPECT_EQ(distance("4096x64", "1024x128"), 3);
  EXPECT_EQ(distance("100, 8", "<=200, 4"), 2);
  EXPECT_EQ(distance("0", "1"), 0);
  EXPECT_EQ(distance("*x8", "*x16"), 1);
  EXPECT_EQ(distance("*x8", "4x8"), std::nullopt);
  EXPECT_EQ(distance("8", "8x1"), std::nullopt);
  EXPECT_EQ(distance("8, -", "8, 4"), std::nullopt);
  EXPECT_EQ(distance("4x4", "4, 4"), std::nullopt);
}

}  // namespace
}  // namespace kiln::test
