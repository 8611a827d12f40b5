// How the command line's text becomes shapes, attributes and inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cli/attribute_text.hpp"
#include "cli/call_inputs.hpp"
#include "cli/shape_text.hpp"
#include "core/errors.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::cli {
namespace {

using testing::HasSubstr;

OpSpec spec_of(std::string name, std::vector<InputSpec> inputs, std::vector<AttributeSpec> attributes) {
  OpSpec spec;
  spec.name = std::move(name);
  spec.inputs = std::move(inputs);
  spec.outputs = {{"out", ""}};
  spec.attributes = std::move(attributes);
  spec.dtypes = {DType::f16, DType::f32, DType::bool_};
  spec.infer = [](std::span<const TensorView> views, const Attributes&) {
    return std::vector<TensorMeta>{{views[0].dtype, views[0].shape}};
  };
  return spec;
}

TEST(ShapeTextTest, ReadsShapes) {
  EXPECT_EQ(parse_shape("4096x4096"), (Dims{4096, 4096}));
  EXPECT_EQ(parse_shape("7"), (Dims{7}));
  EXPECT_EQ(parse_shape("3,0,4"), (Dims{3, 0, 4}));
  EXPECT_EQ(parse_shape("(3, 4)"), (Dims{3, 4}));
  EXPECT_EQ(parse_shape("(3,)"), (Dims{3}));
  EXPECT_EQ(parse_shape("scalar").size(), 0);
  EXPECT_EQ(parse_shape("()").size(), 0);
}

TEST(ShapeTextTest, RefusesOtherText) {
  for (const std::string text :
       {"", "x", "4x", "x4", "4xx4", "4*4", "four", "-1", "4x-1", "1.5", "(4", "4,", "99999999999999999999",
        "1x1x1x1x1x1x1x1x1x1x1x1x1", "4611686018427387904x4", "2x3,4x5"})
    EXPECT_THROW(parse_shape(text), UsageError) << text;
  EXPECT_THAT(test::usage_message([] { parse_shape("4x-1"); }), HasSubstr("-1 is negative"));
  EXPECT_THAT(test::usage_message([] { parse_shape("1x8,1x8"); }), HasSubstr("repeat --shape for each input"));
}

TEST(AttributeTextTest, ReadsValuesAsTheDefaultsType) {
  const auto value = [](AttributeValue fallback, std::string_view text) {
    return parse_attribute_value({"a", std::move(fallback), false, ""}, text);
  };
  EXPECT_EQ(value(1.0, "2"), AttributeValue(2.0));
  EXPECT_EQ(value(1.0, "-1e-3"), AttributeValue(-1e-3));
  EXPECT_TRUE(std::isinf(std::get<double>(value(1.0, "inf"))));
  EXPECT_EQ(value(std::int64_t{1}, "-7"), AttributeValue(std::int64_t{-7}));
  EXPECT_EQ(value(false, "true"), AttributeValue(true));
  EXPECT_EQ(value(std::string("none"), "tanh"), AttributeValue(std::string("tanh")));
  EXPECT_EQ(value(DType::f32, "bfloat16"), AttributeValue(DType::bf16));
  EXPECT_EQ(value(std::vector<std::int64_t>{}, "[0, 1]"), AttributeValue(std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(value(std::vector<std::int64_t>{}, "4x5"), AttributeValue(std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(value(std::vector<std::int64_t>{}, "7"), AttributeValue(std::vector<std::int64_t>{7}));
  EXPECT_EQ(value(std::vector<std::int64_t>{}, "(7,)"), AttributeValue(std::vector<std::int64_t>{7}));
  EXPECT_EQ(value(std::vector<std::int64_t>{}, "()"), AttributeValue(std::vector<std::int64_t>{}));
  for (const char* text : {"4x", "x4", "4xx5", "4;5", "a"})
    EXPECT_THROW(value(std::vector<std::int64_t>{}, text), UsageError) << text;
  EXPECT_EQ(value(std::monostate{}, "0,-1"), AttributeValue(std::vector<std::int64_t>{0, -1}));
  EXPECT_EQ(value(std::monostate{}, "[1]"), AttributeValue(std::vector<std::int64_t>{1}));
  EXPECT_EQ(value(std::monostate{}, "none"), AttributeValue());
  EXPECT_EQ(value(std::monostate{}, "3"), AttributeValue(std::int64_t{3}));
  EXPECT_EQ(value(std::monostate{}, "-0.5"), AttributeValue(-0.5));
  for (const char* text : {"two", "", "1e400", "1,half"})
    EXPECT_THROW(value(std::monostate{}, text), UsageError) << text;
}

TEST(AttributeTextTest, RefusesWhatDoesNotFit) {
  const OpSpec spec =
      spec_of("clamp", {{"x", "", false}}, {{"alpha", 1.0, false, ""}, {"dim", std::int64_t{0}, false, ""}});
  const auto parse = [&](std::vector<std::string> items) {
    return test::usage_message([&] { parse_attributes(spec, items); });
  };
  EXPECT_THAT(parse({"alpha=fast"}), test::Says("alpha", "fast", "float"));
  EXPECT_THAT(parse({"dim=1.5"}), test::Says("dim", "1.5", "int"));
  EXPECT_THAT(parse({"dim=99999999999999999999"}), HasSubstr("int of at most 64 bits"));
  EXPECT_THAT(parse({"alhpa=1"}), test::Says("alhpa", "'alpha'"));
  EXPECT_THAT(parse({"alpha"}), HasSubstr("name=value"));
  EXPECT_THAT(parse({"=1"}), HasSubstr("name=value"));
  EXPECT_THAT(parse({"dim=1", "dim=2"}), HasSubstr("twice"));
  EXPECT_THAT(test::usage_message(
                  [] { parse_attributes(spec_of("neg", {{"x", "", false}}, {}), std::vector<std::string>{"a=1"}); }),
              HasSubstr("no attributes"));
}

TEST(CallInputsTest, OneShapeAndDtypeServeAllInputs) {
  const OpSpec spec = spec_of("add", {{"x", "", false}, {"y", "", false}}, {});
  const auto metas = input_metas(spec, {"add", {"4x5"}, {"f16"}, {}}, {});
  ASSERT_EQ(metas.size(), 2U);
  for (const TensorMeta& meta : metas) {
    EXPECT_EQ(meta.shape, (Dims{4, 5}));
    EXPECT_EQ(meta.dtype, DType::f16);
  }
  EXPECT_EQ(input_metas(spec, {"add", {"4x5", "5"}, {}, {}}, {})[1].shape, (Dims{5}));
  EXPECT_EQ(input_metas(spec, {"add", {"4x5", "5"}, {}, {}}, {})[1].dtype, DType::f32);
}

TEST(CallInputsTest, AnAttributeMayStandForAnOptionalInput) {
  OpSpec spec = spec_of("add", {{"x", "", false}, {"y", "", true}}, {{"other", std::monostate{}, false, ""}});
  spec.infer = [](std::span<const TensorView> inputs, const Attributes& attributes) {
    if ((inputs.size() == 1) == attributes.is_none("other")) throw_value_error("give y or other");
    return std::vector<TensorMeta>{{inputs[0].dtype, inputs[0].shape}};
  };
  EXPECT_EQ(input_metas(spec, {"add", {"4"}, {}, {}}, {}).size(), 2U);
  EXPECT_EQ(input_metas(spec, {"add", {"4"}, {}, {}}, {{"other", 2.0}}).size(), 1U);
  const OpSpec& matmul = Registry::process().get("matmul");
  EXPECT_EQ(input_metas(matmul, {"matmul", {"4x4"}, {}, {}}, {}).size(), 2U) << "no addend";
  EXPECT_EQ(input_metas(matmul, {"matmul", {"4x4", "4x4", "4x4"}, {}, {}}, {}).size(), 3U);
}

TEST(CallInputsTest, AConditionStaysBool) {
  OpSpec spec = spec_of("where", {{"condition", "", false}, {"x", "", false}, {"y", "", false}}, {});
  spec.examples = {{{{DType::bool_, {4}}, {DType::f32, {4}}, {DType::f32, {4}}}, {}}};
  const auto metas = input_metas(spec, {"where", {"4"}, {"f16"}, {}}, {});
  EXPECT_EQ(metas[0].dtype, DType::bool_);
  EXPECT_EQ(metas[1].dtype, DType::f16);
  EXPECT_EQ(metas[2].dtype, DType::f16);
}

TEST(CallInputsTest, RefusesCountsThatDoNotFit) {
  const OpSpec spec = spec_of("add", {{"x", "", false}, {"y", "", false}}, {});
  EXPECT_THAT(test::usage_message([&] { input_metas(spec, {"add", {}, {}, {}}, {}); }), test::Says("--shape", "x, y"));
  EXPECT_THAT(test::usage_message([&] { input_metas(spec, {"add", {"1", "2", "3"}, {}, {}}, {}); }),
              HasSubstr("--shape is given 3 times"));
  EXPECT_THAT(test::usage_message([&] { input_metas(spec, {"add", {"1", "2"}, {"f32", "f32", "f32"}, {}}, {}); }),
              HasSubstr("given"));
  EXPECT_THROW(input_metas(spec, {"add", {"1"}, {"float33"}, {}}, {}), UsageError);
}

TEST(CallInputsTest, AnOpMayTakeNoInputs) {
  OpSpec spec = spec_of("uniform", {}, {{"size", std::vector<std::int64_t>{}, true, ""}});
  spec.examples = {{{}, {{"size", std::vector<std::int64_t>{4, 5}}}}};
  EXPECT_TRUE(input_metas(spec, {"uniform", {}, {}, {}}, {}).empty());
  EXPECT_EQ(example_command(spec, spec.examples[0]), "kiln run uniform --attr size=4,5");
  for (const CallText& call : {CallText{"uniform", {"4x5"}, {}, {}}, CallText{"uniform", {}, {"f16"}, {}}})
    EXPECT_THAT(test::usage_message([&] { input_metas(spec, call, {}); }), test::Says("no inputs", "--attr size=4,5"));
}

TEST(CallInputsTest, ARepeatedInputTakesAnyNumber) {
  const OpSpec spec = spec_of("concat", {{"tensors", "", false, true}}, {});
  const auto metas = input_metas(spec, {"concat", {"4", "5", "6"}, {}, {}}, {});
  ASSERT_EQ(metas.size(), 3U);
  EXPECT_EQ(metas[2].shape, (Dims{6}));
  EXPECT_EQ(input_name(spec, 2), "tensors");
  EXPECT_EQ(signature(spec), "concat(tensors...) -> out");
}

}  // namespace
}  // namespace kiln::cli
