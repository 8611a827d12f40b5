// What the reductions are, by cases: values, dtypes, shapes and errors. The sweep holds kernels to the reference.

#include <cmath>

#include "tests/support/error_message.hpp"
#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

double reduce(std::string_view op, const std::vector<double>& values, const Attributes& attributes = {}) {
  HostTensor x(DType::f64, {static_cast<std::int64_t>(values.size())}, values);
  return run_reference(op, {x.view()}, attributes).values<double>().at(0);
}

std::string error_of(std::string_view op, const TensorView& x, const Attributes& attributes) {
  return usage_message([&] { infer(op, {x}, attributes); });
}

TEST(ReductionReference, ValuesOfASmallRow) {
  const std::vector<double> x = {3, -1, 4, 0};
  EXPECT_EQ(reduce("sum", x), 6);
  EXPECT_EQ(reduce("mean", x), 1.5);
  EXPECT_EQ(reduce("prod", {3, -1, 4}), -12);
  EXPECT_EQ(reduce("amax", x), 4);
  EXPECT_EQ(reduce("amin", x), -1);
  EXPECT_EQ(reduce("max", x), 4);
  EXPECT_EQ(reduce("min", x), -1);
  EXPECT_EQ(reduce("argmax", x), 2);
  EXPECT_EQ(reduce("argmin", x), 1);
  EXPECT_EQ(reduce("any", x), 1);
  EXPECT_EQ(reduce("all", x), 0);
  EXPECT_DOUBLE_EQ(reduce("var", x), 17.0 / 3);
  EXPECT_DOUBLE_EQ(reduce("var", x, {{"correction", 0.0}}), 17.0 / 4);
  EXPECT_DOUBLE_EQ(reduce("std", x), std::sqrt(17.0 / 3));
  EXPECT_DOUBLE_EQ(reduce("norm", x), std::sqrt(26.0));
  EXPECT_EQ(reduce("norm", x, {{"p", 0.0}}), 3);
  EXPECT_EQ(reduce("norm", x, {{"p", 1.0}}), 8);
  EXPECT_EQ(reduce("norm", x, {{"p", kInf}}), 4);
  EXPECT_EQ(reduce("norm", x, {{"p", -kInf}}), 0);
  EXPECT_DOUBLE_EQ(reduce("norm", x, {{"p", 3.0}}), std::cbrt(92.0));
  EXPECT_DOUBLE_EQ(reduce("logsumexp", {1000, 1000}), 1000 + std::log(2.0));
}

TEST(ReductionReference, NothingToReduce) {
  EXPECT_EQ(reduce("sum", {}), 0);
  EXPECT_EQ(reduce("prod", {}), 1);
  EXPECT_TRUE(std::isnan(reduce("mean", {})));
  EXPECT_TRUE(std::isnan(reduce("var", {})));
  EXPECT_TRUE(std::isnan(reduce("var", {5})));  // one element, correction 1
  EXPECT_EQ(reduce("var", {5}, {{"correction", 0.0}}), 0);
  EXPECT_EQ(reduce("any", {}), 0);
  EXPECT_EQ(reduce("all", {}), 1);
  EXPECT_EQ(reduce("norm", {}), 0);
  EXPECT_EQ(reduce("logsumexp", {}), -kInf);
  for (const char* op : {"amax", "amin", "max", "min", "argmax", "argmin"})
    EXPECT_THAT(error_of(op, shaped(DType::f32, {3, 0}), {{"dim", std::int64_t{1}}}),
                Says(op, "(3, 0)", "of nothing has no value"));
  EXPECT_THAT(error_of("norm", shaped(DType::f32, {0}), {{"p", kInf}}), HasSubstr("norm with p=inf of nothing"));
  EXPECT_EQ(infer("amax", {shaped(DType::f32, {0, 3})}, {{"dim", std::int64_t{1}}})[0].shape, (Dims{0}));
}

TEST(ReductionReference, NanWinsAndTheFirstOfEqualsIsFound) {
  EXPECT_TRUE(std::isnan(reduce("amax", {1, kNan, kInf})));
  EXPECT_TRUE(std::isnan(reduce("amin", {1, kNan, -kInf})));
  EXPECT_EQ(reduce("argmax", {1, kNan, kInf, kNan}), 1);
  EXPECT_EQ(reduce("argmin", {-kInf, 7, kNan}), 2);
  EXPECT_EQ(reduce("argmax", {2, 5, 5, 1}), 1);
  EXPECT_EQ(reduce("argmin", {2, 1, 5, 1}), 1);
  EXPECT_EQ(reduce("argmax", {-kInf, -kInf}), 0);
  EXPECT_EQ(reduce("any", {0, kNan}), 1);
  EXPECT_EQ(reduce("logsumexp", {-kInf, -kInf}), -kInf);
  EXPECT_EQ(reduce("logsumexp", {kInf, 1, kInf}), kInf);
  EXPECT_TRUE(std::isnan(reduce("logsumexp", {kInf, kNan})));
  EXPECT_TRUE(std::isnan(reduce("var", {1, kInf, 2})));
}

TEST(ReductionReference, PlacesCountAlongTheDimensionOrOverAll) {
  HostTensor x(DType::i32, {2, 3}, std::vector<std::int64_t>{1, 9, 3, 9, 2, 9});
  const Attributes rows = {{"dim", std::int64_t{-1}}};
  EXPECT_THAT(run_reference("argmax", {x.view()}, rows).values<std::int64_t>(), ElementsAre(1, 0));
  EXPECT_THAT(run_reference("argmax", {x.view()}).values<std::int64_t>(), ElementsAre(1));
  EXPECT_THAT(run_reference("argmin", {x.view()}, {{"dim", std::int64_t{0}}}).values<std::int64_t>(),
              ElementsAre(0, 1, 0));
  const std::vector<TensorMeta> both = infer("max", {x.view()}, rows);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].dtype, DType::i32);
  EXPECT_EQ(both[1].dtype, DType::i64);
  EXPECT_EQ(both[1].shape, (Dims{2}));
  EXPECT_EQ(infer("max", {x.view()}).size(), 1u);
}

TEST(ReductionReference, IntegersAddInSixtyFourBitsAndWrap) {
  HostTensor x(DType::i8, {3}, std::vector<std::int64_t>{127, 127, 127});
  EXPECT_EQ(infer("sum", {x.view()})[0].dtype, DType::i64);
  EXPECT_THAT(run_reference("sum", {x.view()}).values<std::int64_t>(), ElementsAre(381));
  EXPECT_THAT(run_reference("sum", {x.view()}, {{"dtype", DType::i8}}).values<std::int64_t>(), ElementsAre(125));
  EXPECT_THAT(run_reference("mean", {x.view()}, {{"dtype", DType::f32}}).values<double>(), ElementsAre(127.0));
  HostTensor flags(DType::bool_, {3}, std::vector<std::int64_t>{1, 0, 1});
  EXPECT_THAT(run_reference("sum", {flags.view()}).values<std::int64_t>(), ElementsAre(2));
  EXPECT_EQ(infer("amax", {flags.view()})[0].dtype, DType::bool_);
}

TEST(ReductionInfer, ShapesAndDtypes) {
  const TensorView x = shaped(DType::bf16, {4, 5, 6});
  EXPECT_EQ(infer("sum", {x})[0].shape, (Dims{}));
  EXPECT_EQ(infer("sum", {x}, {{"keepdim", true}})[0].shape, (Dims{1, 1, 1}));
  EXPECT_EQ(infer("sum", {x}, {{"dim", std::vector<std::int64_t>{2, -3}}})[0].shape, (Dims{5}));
  EXPECT_EQ(infer("var", {x}, {{"dim", std::int64_t{1}}, {"keepdim", true}})[0].shape, (Dims{4, 1, 6}));
  EXPECT_EQ(infer("sum", {x}, {{"dim", std::vector<std::int64_t>{}}})[0].shape, (Dims{4, 5, 6}));
  EXPECT_EQ(infer("sum", {x})[0].dtype, DType::bf16);
  EXPECT_EQ(infer("sum", {x}, {{"dtype", DType::f64}})[0].dtype, DType::f64);
  EXPECT_EQ(infer("any", {x})[0].dtype, DType::bool_);
  EXPECT_EQ(infer("argmin", {shaped(DType::f32, {})}, {{"dim", std::int64_t{0}}})[0].shape, (Dims{}));
}

TEST(ReductionErrors, NameTheArgumentAndTheValue) {
  const TensorView x = shaped(DType::f32, {4, 5});
  EXPECT_THAT(error_of("sum", x, {{"dim", std::int64_t{2}}}), Says("'dim' is 2", "-2 to 1"));
  EXPECT_THAT(error_of("sum", x, {{"dim", std::vector<std::int64_t>{0, -2}}}), Says("'dim'", "dimension 0 twice"));
  EXPECT_THAT(error_of("argmax", x, {{"dim", std::vector<std::int64_t>{0}}}),
              HasSubstr("expected one integer or None"));
  EXPECT_THAT(error_of("sum", x, {{"dim", 1.5}}), HasSubstr("'dim' is 1.5"));
  EXPECT_THAT(error_of("mean", shaped(DType::i32, {4}), {}), Says("got i32", "'dtype'"));
  EXPECT_THAT(error_of("mean", x, {{"dtype", DType::i64}}), HasSubstr("got i64"));
  EXPECT_THAT(error_of("sum", x, {{"dtype", std::int64_t{3}}}), HasSubstr("'dtype' is 3"));
  EXPECT_THAT(error_of("norm", x, {{"p", kNan}}), HasSubstr("'p' is NaN"));
  EXPECT_THAT(error_of("var", x, {{"correction", kInf}}), HasSubstr("'correction' is inf"));
}

}  // namespace
}  // namespace kiln::test
