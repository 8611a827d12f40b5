#include "core/dtype.hpp"

#include <string>
#include <vector>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(DType, NamesParseBack) {
  for (DType dtype : kAllDTypes) EXPECT_EQ(parse_dtype(name(dtype)), dtype);
}

TEST(DType, AliasesOfTorchAndNumPy) {
  const std::pair<const char*, DType> aliases[] = {
      {"float64", DType::f64},
      {"double", DType::f64},
      {"float32", DType::f32},
      {"float", DType::f32},
      {"half", DType::f16},
      {"float16", DType::f16},
      {"bfloat16", DType::bf16},
      {"int64", DType::i64},
      {"long", DType::i64},
      {"int32", DType::i32},
      {"float8_e4m3fn", DType::fp8e4m3},
      {"int16", DType::i16},
      {"int8", DType::i8},
      {"uint64", DType::u64},
      {"float8_e5m2", DType::fp8e5m2},
      {"uint32", DType::u32},
      {"uint16", DType::u16},
      {"uint8", DType::u8},
      {"bool", DType::bool_},
  };
  for (const auto& [alias, dtype] : aliases) EXPECT_EQ(find_dtype(alias), dtype) << alias;
  EXPECT_EQ(find_dtype("complex64"), std::nullopt);
  EXPECT_EQ(find_dtype(""), std::nullopt);
}

TEST(DType, UnknownNameSuggestsTheNearest) {
  EXPECT_THAT(value_error([] { parse_dtype("flaot32"); }),
              Says("'flaot32'", "did you mean 'float32'", "bf16, fp8e4m3"));
}

TEST(DType, SizesAndKernelNames) {
  EXPECT_EQ(itemsize_bytes(DType::f64), 8);
  EXPECT_EQ(itemsize_bytes(DType::bf16), 2);
  EXPECT_EQ(itemsize_bytes(DType::fp8e5m2), 1);
  EXPECT_EQ(itemsize_bytes(DType::bool_), 1);
  EXPECT_EQ(info(DType::f32).tl_name, "float");
  EXPECT_EQ(info(DType::fp8e4m3).tl_name, "kiln::tl::float8e4m3");
  EXPECT_EQ(info(DType::u16).tl_name, "kiln::tl::uint16_t");
  EXPECT_FALSE(info(DType::u8).is_signed);
  EXPECT_TRUE(is_integer(DType::u8));
  EXPECT_FALSE(is_integer(DType::bool_));
  EXPECT_TRUE(is_floating(DType::fp8e4m3));
}

TEST(DType, ComputeTypeWidensOnlyNarrowFloats) {
  for (DType dtype : {DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2})
    EXPECT_EQ(compute_dtype(dtype), DType::f32) << name(dtype);
  for (DType dtype : {DType::f64, DType::f32, DType::i8, DType::u64, DType::bool_})
    EXPECT_EQ(compute_dtype(dtype), dtype) << name(dtype);
}

// Rows and columns in the order of kAllDTypes; "-" where torch refuses.
const std::vector<std::vector<std::string>> kPromotion = {
    // f64 f32 f16 bf16 fp8e4m3 fp8e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool
    {"f64", "f64", "f64", "f64", "-", "-", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
    {"f64", "f32", "f32", "f32", "-", "-", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"},
    {"f64", "f32", "f16", "f32", "-", "-", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16"},
    {"f64", "f32", "f32", "bf16", "-", "-", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"},
    {"-", "-", "-", "-", "fp8e4m3", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
    {"-", "-", "-", "-", "-", "fp8e5m2", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
    {"f64", "f32", "f16", "bf16", "-", "-", "i64", "i64", "i64", "i64", "-", "-", "-", "i64", "i64"},
    {"f64", "f32", "f16", "bf16", "-", "-", "i64", "i32", "i32", "i32", "-", "-", "-", "i32", "i32"},
    {"f64", "f32", "f16", "bf16", "-", "-", "i64", "i32", "i16", "i16", "-", "-", "-", "i16", "i16"},
    {"f64", "f32", "f16", "bf16", "-", "-", "i64", "i32", "i16", "i8", "-", "-", "-", "i16", "i8"},
    {"f64", "f32", "f16", "bf16", "-", "-", "-", "-", "-", "-", "u64", "-", "-", "-", "-"},
    {"f64", "f32", "f16", "bf16", "-", "-", "-", "-", "-", "-", "-", "u32", "-", "-", "-"},
    {"f64", "f32", "f16", "bf16", "-", "-", "-", "-", "-", "-", "-", "-", "u16", "-", "-"},
    {"f64", "f32", "f16", "bf16", "-", "-", "i64", "i32", "i16", "i16", "-", "-", "-", "u8", "u8"},
    {"f64", "f32", "f16", "bf16", "-", "-", "i64", "i32", "i16", "i8", "-", "-", "-", "u8", "bool"},
};

TEST(Promotion, MatchesTorchForEveryPair) {
  for (std::size_t i = 0; i < kAllDTypes.size(); ++i)
    for (std::size_t j = 0; j < kAllDTypes.size(); ++j) {
      const DType a = kAllDTypes[i];
      const DType b = kAllDTypes[j];
      ASSERT_EQ(kPromotion[i][j], kPromotion[j][i]) << "the table is not symmetric";
      const std::string left(name(a)), right(name(b));
      SCOPED_TRACE(left + " with " + right);
      if (kPromotion[i][j] == std::string("-"))
        EXPECT_THAT(usage_message(UsageError::Kind::type, [&] { promote_types(a, b); }),
                    HasSubstr(left + " and " + right));
      else
        EXPECT_EQ(name(promote_types(a, b)), std::string(kPromotion[i][j]));
    }
}

DType result(std::vector<PromotionOperand> operands) {
  return result_type(operands);
}

TEST(ResultType, DimensionedOperandsPromote) {
  EXPECT_EQ(result({{DType::i32}}), DType::i32);
  EXPECT_EQ(result({{DType::i32}, {DType::i64}}), DType::i64);
  EXPECT_EQ(result({{DType::u8}, {DType::i8}, {DType::f16}}), DType::f16);
  EXPECT_THROW(result({{DType::u32}, {DType::i32}}), UsageError);
}

TEST(ResultType, ZeroDimOperandsCountOnlyInAHigherCategory) {
  EXPECT_EQ(result({{DType::f32}, {DType::f64, true}}), DType::f32);
  EXPECT_EQ(result({{DType::f16, false}, {DType::f32, true}}), DType::f16);
  EXPECT_EQ(result({{DType::i32}, {DType::i64, true}}), DType::i32);
  EXPECT_EQ(result({{DType::i64}, {DType::f16, true}}), DType::f16);
  EXPECT_EQ(result({{DType::bool_}, {DType::i8, true}}), DType::i8);
  EXPECT_EQ(result({{DType::bool_}, {DType::f64, true}}), DType::f64);
  EXPECT_EQ(result({{DType::f32, true}, {DType::bool_}}), DType::f32);
  EXPECT_EQ(result({{DType::u8}, {DType::bool_, true}}), DType::u8);
}

TEST(ResultType, ZeroDimOperandsAlonePromoteAsUsual) {
  EXPECT_EQ(result({{DType::i32, true}, {DType::f16, true}}), DType::f16);
  EXPECT_EQ(result({{DType::i8, true}, {DType::u8, true}}), DType::i16);
}

TEST(ResultType, AZeroDimOperandOfTheSameCategoryCannotBeRefused) {
  // torch promotes across the two groups only when the category rises.
  EXPECT_EQ(result({{DType::f32}, {DType::fp8e4m3, true}}), DType::f32);
  EXPECT_EQ(result({{DType::u32}, {DType::i64, true}}), DType::u32);
  EXPECT_THROW(result({{DType::i32}, {DType::fp8e4m3, true}}), UsageError);
}

TEST(ResultType, NeedsAnOperand) {
  EXPECT_THROW(result({}), UsageError);
}

TEST(UnsignedDtype, HasTheSizeAskedFor) {
  for (const std::int64_t bytes : {1, 2, 4, 8}) {
    const DType dtype = unsigned_dtype(bytes);
    EXPECT_EQ(itemsize_bytes(dtype), bytes);
    EXPECT_TRUE(is_integer(dtype));
    EXPECT_FALSE(info(dtype).is_signed);
  }
  EXPECT_THROW(unsigned_dtype(3), InternalError);
}

}  // namespace
}  // namespace kiln::test
