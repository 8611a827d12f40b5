#include "core/attributes.hpp"

#include <limits>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using Integers = std::vector<std::int64_t>;

TEST(Attributes, AreSortedAndOverwritten) {
  Attributes attributes{{"dim", std::int64_t{1}}, {"alpha", 2.0}};
  attributes.set("beta", true);
  attributes.set("alpha", 3.0);
  ASSERT_EQ(attributes.entries().size(), 3u);
  EXPECT_EQ(attributes.entries()[0].first, "alpha");
  EXPECT_EQ(attributes.entries()[1].first, "beta");
  EXPECT_EQ(attributes.entries()[2].first, "dim");
  EXPECT_EQ(attributes.get_double("alpha"), 3.0);
  EXPECT_EQ(attributes, (Attributes{{"alpha", 3.0}, {"beta", true}, {"dim", std::int64_t{1}}}));
  EXPECT_NE(attributes, Attributes{});
  EXPECT_EQ(attributes.find("gamma"), nullptr);
}

TEST(Attributes, HoldIntegersOfAll64Bits) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  const Attributes attributes{{"large", kMost}, {"small", std::uint64_t{7}}, {"negative", std::int64_t{-1}}};
  EXPECT_EQ(attributes.get_unsigned("large"), kMost);
  EXPECT_EQ(attributes.get_unsigned("small"), 7u);
  EXPECT_EQ(attributes.get_int("small"), 7) << "equal integers are equal values, whatever they were given as";
  EXPECT_EQ(attributes.get_double("large"), 0x1p64);
  EXPECT_EQ(to_string(*attributes.find("large")), "18446744073709551615");
  EXPECT_THROW(attributes.get_int("large"), InternalError);
  EXPECT_THROW(attributes.get_unsigned("negative"), InternalError);
}

TEST(Attributes, RefusesANameGivenTwice) {
  EXPECT_THROW((Attributes{{"dim", std::int64_t{1}}, {"dim", std::int64_t{2}}}), UsageError);
}

TEST(Attributes, GettersReturnTheirType) {
  const Attributes attributes{{"keepdim", true},       {"dim", std::int64_t{-1}}, {"eps", 1e-5},
                              {"approximate", "tanh"}, {"dtype", DType::bf16},    {"min", std::monostate{}}};
  EXPECT_TRUE(attributes.get_bool("keepdim"));
  EXPECT_EQ(attributes.get_int("dim"), -1);
  EXPECT_EQ(attributes.get_double("eps"), 1e-5);
  EXPECT_EQ(attributes.get_double("dim"), -1.0);
  EXPECT_EQ(attributes.get_double("keepdim"), 1.0);
  EXPECT_EQ(attributes.get_string("approximate"), "tanh");
  EXPECT_EQ(attributes.get_dtype("dtype"), DType::bf16);
  EXPECT_TRUE(attributes.is_none("min"));
  EXPECT_FALSE(attributes.is_none("eps"));
}

TEST(Attributes, AbsentOrOfAnotherTypeIsOurFault) {
  const Attributes attributes{{"dim", 1.5}, {"min", std::monostate{}}};
  EXPECT_THROW(attributes.get_int("axis"), InternalError);
  EXPECT_THROW(attributes.is_none("axis"), InternalError);
  EXPECT_THROW(attributes.get_double("min"), InternalError);
  EXPECT_THROW(attributes.get_bool("dim"), InternalError);
  EXPECT_THROW(attributes.get_string("dim"), InternalError);
  EXPECT_THROW(attributes.get_dtype("dim"), InternalError);
  EXPECT_THAT(error_message<InternalError>([&] { attributes.get_int("dim"); }),
              HasSubstr("'dim' is 1.5, which is not an integer"));
}

TEST(AttributeValue, TextTellsTypesApart) {
  EXPECT_EQ(to_string(AttributeValue()), "None");
  EXPECT_EQ(to_string(AttributeValue(true)), "true");
  EXPECT_EQ(to_string(AttributeValue(std::int64_t{1})), "1");
  EXPECT_EQ(to_string(AttributeValue(1.0)), "1.0");
  EXPECT_EQ(to_string(AttributeValue(0.1)), "0.1");
  EXPECT_EQ(to_string(AttributeValue(1e300)), "1e+300");
  EXPECT_EQ(to_string(AttributeValue(-std::numeric_limits<double>::infinity())), "-inf");
  EXPECT_EQ(to_string(AttributeValue("1")), "'1'");
  EXPECT_EQ(to_string(AttributeValue(DType::f32)), "f32");
  EXPECT_EQ(to_string(AttributeValue(Integers{0, -1})), "[0, -1]");
  EXPECT_EQ(to_string(AttributeValue(Integers{})), "[]");
}

}  // namespace
}  // namespace kiln::test
