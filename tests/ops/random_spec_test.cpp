// What calls of the random ops are refused, and what they make.

#include <limits>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kSeed = 1;
const char* const kMakers[] = {"uniform", "normal", "randint", "bernoulli"};

using Size = std::vector<std::int64_t>;

Attributes call_of(const std::string& op, Attributes attributes) {
  if (op != "dropout" && attributes.find("size") == nullptr) attributes.set("size", Size{2, 3});
  if (attributes.find("seed") == nullptr) attributes.set("seed", kSeed);
  if (op == "randint" && attributes.find("high") == nullptr) attributes.set("high", std::int64_t{10});
  return attributes;
}

std::vector<TensorMeta> infer_call(const std::string& op, const Attributes& attributes) {
  if (op == "dropout") return infer(op, {shaped(DType::f32, {4})}, call_of(op, attributes));
  return infer(op, {}, call_of(op, attributes));
}

std::string error_of(const std::string& op, const Attributes& attributes) {
  return usage_message([&] { infer_call(op, attributes); });
}

TEST(RandomSpecTest, MakesTheSizeAndDtypeAskedFor) {
  for (const char* op : kMakers) {
    const TensorMeta meta = infer_call(op, {}).at(0);
    EXPECT_EQ(meta.shape, (Dims{2, 3})) << op;
    EXPECT_EQ(meta.dtype, std::string(op) == "randint" ? DType::i64 : DType::f32) << op;
    EXPECT_EQ(infer_call(op, {{"size", Size{}}}).at(0).shape, Dims{}) << op;
    EXPECT_EQ(infer_call(op, {{"size", Size{0, 5}}}).at(0).shape, (Dims{0, 5})) << op;
  }
  EXPECT_EQ(infer_call("bernoulli", {{"dtype", DType::bool_}}).at(0).dtype, DType::bool_);
  EXPECT_EQ(infer("dropout", {shaped(DType::bf16, {7})}, {{"seed", kSeed}}).at(0).dtype, DType::bf16);
}

TEST(RandomSpecTest, RefusesSizesThatAreNone) {
  for (const char* op : kMakers) {
    EXPECT_THAT(error_of(op, {{"size", Size{4, -1}}}), Says(op, "'size'", "-1"));
    EXPECT_THAT(error_of(op, {{"size", Size(13, 1)}}), Says("'size'", "12 dimensions"));
    EXPECT_THROW(infer_call(op, {{"size", Size{std::int64_t{1} << 62, 4}}}), UsageError);
  }
}

TEST(RandomSpecTest, RefusesSeedsAndOffsetsOutOfRange) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const char* op : {"uniform", "normal", "randint", "bernoulli", "dropout"}) {
    EXPECT_THAT(error_of(op, {{"seed", std::int64_t{-3}}}), Says(op, "'seed'", "-3"));
    EXPECT_THAT(error_of(op, {{"offset", std::int64_t{-4}}}), Says(op, "'offset'", "-4"));
    EXPECT_NO_THROW(infer_call(op, {{"seed", kMost}, {"offset", kMost}}));
  }
}

TEST(RandomSpecTest, RefusesProbabilitiesOutOfRange) {
  for (const char* op : {"bernoulli", "dropout"}) {
    EXPECT_THAT(error_of(op, {{"p", 1.5}}), Says(op, "'p'", "1.5"));
    EXPECT_THAT(error_of(op, {{"p", -0.25}}), HasSubstr("-0.25"));
    EXPECT_THAT(error_of(op, {{"p", std::numeric_limits<double>::quiet_NaN()}}), HasSubstr("nan"));
    EXPECT_NO_THROW(infer_call(op, {{"p", 0.0}}));
    EXPECT_NO_THROW(infer_call(op, {{"p", 1.0}}));
  }
}

TEST(RandomSpecTest, RefusesBoundsThatHoldNothing) {
  EXPECT_THAT(error_of("uniform", {{"low", 2.0}, {"high", 2.0}}), Says("low", "2"));
  EXPECT_THAT(error_of("uniform", {{"low", std::numeric_limits<double>::quiet_NaN()}}), HasSubstr("nan"));
  EXPECT_THAT(error_of("uniform", {{"high", std::numeric_limits<double>::infinity()}}), HasSubstr("inf"));
  EXPECT_THAT(error_of("uniform", {{"high", 1e5}, {"dtype", DType::f16}}), Says("100000", "f16"));
  EXPECT_THAT(error_of("uniform", {{"low", -1.5e308}, {"high", 1.5e308}, {"dtype", DType::f64}}),
              HasSubstr("1.5e+308"));
  EXPECT_THAT(error_of("normal", {{"std", -1.0}}), Says("'std'", "-1"));
  EXPECT_THAT(error_of("normal", {{"mean", std::numeric_limits<double>::infinity()}}), HasSubstr("'mean'"));
  EXPECT_THAT(error_of("randint", {{"low", std::int64_t{5}}, {"high", std::int64_t{5}}}), Says("low", "5"));
}

TEST(RandomSpecTest, RefusesIntegersThatTheDtypeDoesNotHold) {
  EXPECT_THAT(error_of("randint", {{"high", std::int64_t{129}}, {"dtype", DType::i8}}),
              Says("128", "i8", "-128 to 127"));
  EXPECT_THAT(error_of("randint", {{"low", std::int64_t{-1}}, {"dtype", DType::u64}}),
              Says("-1", "18446744073709551615"));
  EXPECT_THAT(error_of("randint", {{"high", std::int64_t{3}}, {"dtype", DType::bool_}}), HasSubstr("0 to 1"));
  EXPECT_NO_THROW(
      infer_call("randint", {{"low", std::int64_t{-128}}, {"high", std::int64_t{128}}, {"dtype", DType::i8}}));
  EXPECT_NO_THROW(infer_call("randint", {{"high", std::int64_t{2}}, {"dtype", DType::bool_}}));
  EXPECT_NO_THROW(infer_call("randint", {{"low", std::numeric_limits<std::int64_t>::min()},
                                         {"high", std::numeric_limits<std::int64_t>::max()}}));
}

TEST(RandomSpecTest, RefusesDtypesItDoesNotMake) {
  EXPECT_THAT(error_of("uniform", {{"dtype", DType::i32}}), Says("i32", "bf16"));
  EXPECT_THAT(error_of("randint", {{"dtype", DType::f32}}), Says("f32", "i64"));
  EXPECT_THROW(infer("dropout", {shaped(DType::i32, {7})}, {{"seed", kSeed}}), UsageError);
}

}  // namespace
}  // namespace kiln::test
