#include <limits>

#include "core/errors.hpp"
#include "ops/elementwise/promotion.hpp"
#include "ops/elementwise/spec.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

const Dims kShape{4, 3};

DType out_dtype(std::string_view op, const std::vector<DType>& dtypes, const Attributes& attributes = {}) {
  std::vector<TensorView> inputs;
  for (const DType dtype : dtypes) inputs.push_back(shaped(dtype, kShape));
  return infer(op, inputs, attributes).at(0).dtype;
}

elementwise::ElementwiseTypes types_of(std::string_view op, const std::vector<TensorView>& inputs,
                                       const Attributes& given = {}) {
  for (const elementwise::OpRow& row : elementwise::op_table())
    if (row.name == op) return elementwise::resolve_types(row, inputs, with_defaults(spec_of(op), given));
  throw std::logic_error("no row");
}

ops::Scalars scalars_of(std::string_view op, const std::vector<TensorView>& inputs, const Attributes& given) {
  for (const elementwise::OpRow& row : elementwise::op_table())
    if (row.name == op) {
      const Attributes attributes = with_defaults(spec_of(op), given);
      return elementwise::make_scalars(row, attributes, elementwise::resolve_types(row, inputs, attributes));
    }
  throw std::logic_error("no row");
}

TEST(ElementwisePromotion, ArithmeticTakesTorchsResultType) {
  EXPECT_EQ(out_dtype("add", {DType::i32, DType::i64}), DType::i64);
  EXPECT_EQ(out_dtype("add", {DType::u8, DType::i8}), DType::i16);
  EXPECT_EQ(out_dtype("mul", {DType::i64, DType::f16}), DType::f16);
  EXPECT_EQ(out_dtype("sub", {DType::f16, DType::bf16}), DType::f32);
  EXPECT_EQ(out_dtype("add", {DType::bool_, DType::bool_}), DType::bool_);
  EXPECT_EQ(out_dtype("add_relu", {DType::f32, DType::f64}), DType::f64);
  EXPECT_EQ(out_dtype("mul_add", {DType::i32, DType::f32, DType::f16}), DType::f32);
  EXPECT_EQ(out_dtype("maximum", {DType::fp8e4m3, DType::fp8e4m3}), DType::fp8e4m3);
  EXPECT_EQ(out_dtype("sub", {DType::i32, DType::bool_}), DType::i32);
}

TEST(ElementwisePromotion, EveryFloatFunctionTurnsIntegersIntoF32) {
  for (const char* op : {"exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos",
                         "tan", "tanh", "erf", "sigmoid"})
    for (const DType dtype : kAllDTypes)
      EXPECT_EQ(out_dtype(op, {dtype}), is_floating(dtype) ? dtype : DType::f32) << op << " " << name(dtype);
  for (const char* op : {"div", "atan2"}) {
    EXPECT_EQ(out_dtype(op, {DType::i64, DType::i32}), DType::f32);
    EXPECT_EQ(out_dtype(op, {DType::bool_, DType::bool_}), DType::f32);
    EXPECT_EQ(out_dtype(op, {DType::i64, DType::f64}), DType::f64);
    EXPECT_EQ(out_dtype(op, {DType::i64, DType::bf16}), DType::bf16);
  }
}

TEST(ElementwisePromotion, ComparisonsAndPredicatesGiveBool) {
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"})
    for (const DType dtype : kAllDTypes)
      EXPECT_EQ(out_dtype(op, {dtype, dtype}), DType::bool_) << op << " " << name(dtype);
  for (const char* op : {"logical_not", "isnan", "isinf"})
    for (const DType dtype : kAllDTypes) EXPECT_EQ(out_dtype(op, {dtype}), DType::bool_) << op << " " << name(dtype);
  EXPECT_EQ(types_of("lt", {shaped(DType::i32, kShape), shaped(DType::f16, kShape)}).compute, DType::f32);
  EXPECT_EQ(types_of("lt", {shaped(DType::u8, kShape), shaped(DType::i64, kShape)}).compute, DType::i64);
}

TEST(ElementwisePromotion, NarrowFloatsComputeInF32AndTheRestInThemselves) {
  for (const DType dtype : kAllDTypes) {
    const DType expected = is_floating(dtype) && dtype != DType::f64 ? DType::f32 : dtype;
    EXPECT_EQ(types_of("maximum", {shaped(dtype, kShape), shaped(dtype, kShape)}).compute, expected) << name(dtype);
    EXPECT_EQ(types_of("cast", {shaped(dtype, kShape)}, {{"dtype", DType::i8}}).compute, expected) << name(dtype);
  }
}

TEST(ElementwisePromotion, OneRoundedOperationOnTwo16BitTensorsComputesInThem) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(name(dtype));
    const TensorView x = shaped(dtype, kShape);
    for (const char* op : {"add", "sub", "mul"}) EXPECT_EQ(types_of(op, {x, x}).compute, dtype) << op;
    // More than one operation, a number that f16 may not hold, a tensor that it may not hold.
    EXPECT_EQ(types_of("add", {x, x}, {{"alpha", 2.0}}).compute, DType::f32);
    EXPECT_EQ(types_of("add_relu", {x, x}).compute, DType::f32);
    EXPECT_EQ(types_of("mul", {x}, {{"other", 0.1}}).compute, DType::f32);
    EXPECT_EQ(types_of("add", {x, shaped(DType::i32, kShape)}).compute, DType::f32);
  }
  const TensorView narrower = shaped(DType::fp8e4m3, kShape);
  EXPECT_EQ(types_of("add", {narrower, narrower}).compute, DType::f32);
}

TEST(ElementwisePromotion, AScalarChangesTheDTypeOnlyWhereItsKindIsHigher) {
  const AttributeValue two = std::int64_t{2};
  const AttributeValue half = 2.5;
  const AttributeValue yes = true;
  EXPECT_EQ(out_dtype("add", {DType::i8}, {{"other", two}}), DType::i8);
  EXPECT_EQ(out_dtype("add", {DType::i8}, {{"other", half}}), DType::f32);
  EXPECT_EQ(out_dtype("add", {DType::i64}, {{"other", half}}), DType::f32);
  EXPECT_EQ(out_dtype("add", {DType::f16}, {{"other", half}}), DType::f16);
  EXPECT_EQ(out_dtype("add", {DType::fp8e5m2}, {{"other", half}}), DType::fp8e5m2);
  EXPECT_EQ(out_dtype("add", {DType::bool_}, {{"other", yes}}), DType::bool_);
  EXPECT_EQ(out_dtype("add", {DType::bool_}, {{"other", two}}), DType::i64);
  EXPECT_EQ(out_dtype("sub", {DType::bool_}, {{"other", two}}), DType::i64);
  EXPECT_EQ(out_dtype("pow", {DType::bool_}, {{"other", half}}), DType::f32);
  EXPECT_EQ(out_dtype("clamp", {DType::i32}, {{"min", two}}), DType::i32);
  EXPECT_EQ(out_dtype("clamp", {DType::i32}, {{"min", two}, {"max", half}}), DType::f32);
  EXPECT_EQ(out_dtype("clamp", {DType::u8}, {{"max", two}}), DType::u8);
  EXPECT_EQ(out_dtype("fill", {DType::i32}, {{"value", half}}), DType::i32) << "a fill keeps the dtype";
}

TEST(ElementwisePromotion, ZeroDimTensorsOnlyCountWhereTheirKindIsHigher) {
  EXPECT_EQ(infer("add", {shaped(DType::f16, kShape), shaped(DType::f64, {})}).at(0).dtype, DType::f16);
  EXPECT_EQ(infer("add", {shaped(DType::i32, kShape), shaped(DType::f64, {})}).at(0).dtype, DType::f64);
  EXPECT_EQ(infer("add", {shaped(DType::f16, {}), shaped(DType::f64, {})}).at(0).dtype, DType::f64);
}

TEST(ElementwisePromotion, WhereCastAndFill) {
  EXPECT_EQ(out_dtype("where", {DType::bool_, DType::i32, DType::f16}), DType::f16);
  EXPECT_EQ(out_dtype("where", {DType::bool_, DType::u8, DType::u8}), DType::u8);
  for (const DType to : kAllDTypes) EXPECT_EQ(out_dtype("cast", {DType::f32}, {{"dtype", to}}), to);
  for (const DType dtype : kAllDTypes) EXPECT_EQ(out_dtype("fill", {dtype}, {{"value", 1.0}}), dtype);
  EXPECT_THAT(usage_error([] { out_dtype("where", {DType::u8, DType::f32, DType::f32}); }),
              Says("type: ", "'condition' is u8, expected bool"));
}

TEST(ElementwisePromotion, UnsupportedDTypesNameTheOpTheOperandsAndWhatIsSupported) {
  EXPECT_THAT(usage_error([] { out_dtype("bitwise_and", {DType::i32, DType::f32}); }),
              Says("not_implemented: ", "'bitwise_and'", "x i32, y f32",
                   "supported: i64, i32, i16, i8, u64, u32, u16, u8, bool"));
  EXPECT_THAT(usage_error([] { out_dtype("bitwise_and", {DType::i32}, {{"other", 2.5}}); }),
              Says("not_implemented: ", "other 2.5"));
  EXPECT_THAT(usage_error([] { out_dtype("gelu", {DType::i32}); }),
              Says("not_implemented: ", "'gelu'", "f64, f32, f16"));
  EXPECT_THAT(usage_error([] { out_dtype("sub", {DType::bool_, DType::bool_}); }), HasSubstr("not_implemented: "));
  EXPECT_THAT(usage_error([] { out_dtype("neg", {DType::bool_}); }), HasSubstr("not_implemented: "));
  EXPECT_THAT(usage_error([] { out_dtype("bitwise_left_shift", {DType::bool_, DType::bool_}); }),
              HasSubstr("not_implemented: "));
  EXPECT_THAT(usage_error([] { out_dtype("add", {DType::fp8e4m3, DType::f32}); }),
              Says("type: ", "op 'add'", "x fp8e4m3, y f32"));
  EXPECT_THAT(usage_error([] { out_dtype("add", {DType::u32, DType::i32}); }), HasSubstr("type: "));
}

TEST(ElementwisePromotion, SpecsListExactlyTheDTypesThatWork) {
  for (const OpSpec& spec : elementwise::elementwise_specs()) {
    for (const DType dtype : kAllDTypes) {
      const bool listed = std::find(spec.dtypes.begin(), spec.dtypes.end(), dtype) != spec.dtypes.end();
      std::vector<TensorView> inputs(spec.inputs.size(), shaped(dtype, kShape));
      if (spec.name == "where") inputs[0] = shaped(DType::bool_, kShape);
      const Attributes attributes =
          with_defaults(spec, spec.name == "clamp" || spec.name == "fill" ? spec.examples[0].attributes : Attributes());
      if (dtype == DType::bool_ && inputs.size() > 1 && listed) continue;  // it may stand beside a wider dtype alone
      if (listed)
        EXPECT_NO_THROW(spec.infer(inputs, attributes)) << spec.name << " " << name(dtype);
      else
        EXPECT_THROW(spec.infer(inputs, attributes), UsageError) << spec.name << " " << name(dtype);
    }
  }
}

TEST(ElementwiseInference, ShapesBroadcast) {
  const auto shape_of = [](const Dims& a, const Dims& b) {
    return infer("add", {shaped(DType::f32, a), shaped(DType::f32, b)}).at(0).shape;
  };
  EXPECT_EQ(shape_of({4, 3}, {4, 3}), (Dims{4, 3}));
  EXPECT_EQ(shape_of({4, 3}, {3}), (Dims{4, 3}));
  EXPECT_EQ(shape_of({4, 1}, {1, 3}), (Dims{4, 3}));
  EXPECT_EQ(shape_of({}, {2, 5}), (Dims{2, 5}));
  EXPECT_EQ(shape_of({}, {}), Dims());
  EXPECT_EQ(shape_of({0, 3}, {1, 3}), (Dims{0, 3}));
  EXPECT_EQ(shape_of({7, 1, 5}, {6, 1}), (Dims{7, 6, 5}));
  EXPECT_EQ(infer("where", {shaped(DType::bool_, {4, 1}), shaped(DType::f32, {3}), shaped(DType::f32, {})}).at(0).shape,
            (Dims{4, 3}));
  EXPECT_THAT(usage_error([&] { shape_of({4, 3}, {4, 2}); }), Says("value: ", "op 'add'", "'x' (4, 3)", "'y' (4, 2)"));
}

TEST(ElementwiseInference, SecondOperandIsATensorOrANumberNotBoth) {
  EXPECT_THAT(usage_error([] { out_dtype("add", {DType::f32}); }), Says("value: ", "'y'", "'other'"));
  EXPECT_THAT(usage_error([] { out_dtype("add", {DType::f32, DType::f32}, {{"other", 2.0}}); }),
              Says("value: ", "both", "2"));
  EXPECT_THAT(usage_error([] { out_dtype("add", {DType::f32}, {{"other", std::string("two")}}); }),
              Says("type: ", "'other'", "two", "number"));
}

TEST(ElementwiseInference, AttributesAreChecked) {
  EXPECT_THAT(usage_error([] { out_dtype("clamp", {DType::f32}); }), Says("value: ", "'min'"));
  EXPECT_THAT(usage_error([] { out_dtype("gelu", {DType::f32}, {{"approximate", std::string("sigmoid")}}); }),
              Says("value: ", "'sigmoid'", "'tanh'"));
  EXPECT_THAT(usage_error([] { out_dtype("add", {DType::i32, DType::i32}, {{"alpha", 0.5}}); }),
              Says("value: ", "'alpha' is 0.5", "i32"));
  EXPECT_EQ(out_dtype("add", {DType::i32, DType::i32}, {{"alpha", 3.0}}), DType::i32);
  EXPECT_EQ(out_dtype("add", {DType::i32, DType::i32}, {{"alpha", std::int64_t{3}}}), DType::i32);
  EXPECT_EQ(out_dtype("add", {DType::f32, DType::i32}, {{"alpha", 0.5}}), DType::f32);
}

TEST(ElementwiseScalars, MustFitTheIntegerTheyAreUsedIn) {
  const TensorView i8 = shaped(DType::i8, kShape);
  const TensorView u8 = shaped(DType::u8, kShape);
  const TensorView u64 = shaped(DType::u64, kShape);
  EXPECT_THROW(scalars_of("lt", {i8}, {{"other", std::int64_t{1000}}}), UsageError);
  EXPECT_THROW(scalars_of("lt", {i8}, {{"other", std::int64_t{128}}}), UsageError);
  EXPECT_NO_THROW(scalars_of("lt", {i8}, {{"other", std::int64_t{127}}}));
  EXPECT_NO_THROW(scalars_of("lt", {i8}, {{"other", std::int64_t{-128}}}));
  EXPECT_THROW(scalars_of("lt", {i8}, {{"other", std::int64_t{-129}}}), UsageError);
  EXPECT_THROW(scalars_of("add", {u8}, {{"other", std::int64_t{-1}}}), UsageError);
  EXPECT_THROW(scalars_of("gt", {u64}, {{"other", std::int64_t{-1}}}), UsageError);
  EXPECT_THROW(scalars_of("fill", {u8}, {{"value", 1e9}}), UsageError);
  EXPECT_THROW(scalars_of("clamp", {i8}, {{"max", std::int64_t{1000}}}), UsageError);
}

TEST(ElementwiseScalars, AreHeldAsTheComputeDTypeHoldsThem) {
  const TensorView f32 = shaped(DType::f32, kShape);
  const TensorView f16 = shaped(DType::f16, kShape);
  const TensorView u8 = shaped(DType::u8, kShape);
  const TensorView u64 = shaped(DType::u64, kShape);
  EXPECT_EQ(scalars_of("add", {f32}, {{"other", 0.1}}).f[3], static_cast<double>(0.1F));
  EXPECT_EQ(scalars_of("add", {f16}, {{"other", 0.1}}).f[3], static_cast<double>(0.1F))
      << "arithmetic keeps f32's precision";
  EXPECT_EQ(scalars_of("eq", {f16}, {{"other", 0.1}}).f[3], 0.0999755859375)
      << "comparisons see the f16 value, as torch does";
  EXPECT_EQ(scalars_of("add", {u8}, {{"other", std::int64_t{255}}}).i[3], 255);
  EXPECT_EQ(scalars_of("fill", {u64}, {{"value", 0x1p63}}).i[0], INT64_MIN) << "the bits of 2^63";
  EXPECT_EQ(scalars_of("fill", {shaped(DType::bool_, kShape)}, {{"value", 0.25}}).i[0], 1);
  EXPECT_EQ(scalars_of("fill", {shaped(DType::i32, kShape)}, {{"value", -2.75}}).i[0], -2);
  EXPECT_EQ(
      scalars_of("fill", {shaped(DType::i32, kShape)}, {{"value", std::numeric_limits<double>::quiet_NaN()}}).i[0], 0);
  const ops::Scalars bounds = scalars_of("clamp", {f32}, {{"min", std::int64_t{-2}}, {"max", 3.5}});
  EXPECT_EQ(bounds.f[0], -2);
  EXPECT_EQ(bounds.f[1], 3.5);
}

}  // namespace
}  // namespace kiln::test
