#include <cmath>
#include <string>
#include <vector>

#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TensorView f32(const Dims& shape) {
  return shaped(DType::f32, shape);
}
TensorView f16(const Dims& shape) {
  return shaped(DType::f16, shape);
}

Dims product_shape(const Dims& a, const Dims& b) {
  return infer("matmul", {f32(a), f32(b)})[0].shape;
}

TEST(MatmulSpec, ShapesAreTorchs) {
  EXPECT_EQ(product_shape({3, 4}, {4, 5}), (Dims{3, 5}));
  EXPECT_EQ(product_shape({4}, {4}), Dims{});
  EXPECT_EQ(product_shape({4}, {4, 5}), (Dims{5}));
  EXPECT_EQ(product_shape({3, 4}, {4}), (Dims{3}));
  EXPECT_EQ(product_shape({7, 1, 3, 4}, {2, 4, 5}), (Dims{7, 2, 3, 5}));
  EXPECT_EQ(product_shape({4}, {6, 4, 5}), (Dims{6, 5}));
  EXPECT_EQ(product_shape({6, 3, 4}, {4}), (Dims{6, 3}));
  EXPECT_EQ(product_shape({3, 0}, {0, 5}), (Dims{3, 5}));
  EXPECT_EQ(product_shape({0, 4}, {4, 5}), (Dims{0, 5}));
  EXPECT_EQ(product_shape({0, 3, 4}, {1, 4, 5}), (Dims{0, 3, 5}));
}

TEST(MatmulSpec, ResultDtypes) {
  const auto out = [](DType a, DType b, const Attributes& attributes = {}) {
    return infer("matmul", {shaped(a, {2, 3}), shaped(b, {3, 4})}, attributes)[0].dtype;
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) EXPECT_EQ(out(dtype, dtype), dtype);
  EXPECT_EQ(out(DType::i8, DType::i8), DType::i32);
  EXPECT_EQ(out(DType::fp8e4m3, DType::fp8e4m3), DType::bf16);
  EXPECT_EQ(out(DType::fp8e4m3, DType::fp8e5m2), DType::bf16);
  EXPECT_EQ(out(DType::f16, DType::f16, {{"out_dtype", DType::f32}}), DType::f32);
  EXPECT_EQ(out(DType::f16, DType::f16, {{"out_dtype", std::string("fp8e4m3")}}), DType::fp8e4m3);
  EXPECT_EQ(out(DType::i8, DType::i8, {{"out_dtype", DType::bf16}}), DType::bf16);
  EXPECT_EQ(out(DType::f32, DType::f32, {{"precision", std::string("tf32")}}), DType::f32);
}

TEST(MatmulSpec, ShapeErrorsNameBothShapes) {
  EXPECT_THAT(value_refusal("matmul", {f32({3, 4}), f32({5, 6})}),
              Says("(3, 4)", "(5, 6)", "inner dimensions", "is 4", "is 5"));
  EXPECT_THAT(value_refusal("matmul", {f32({2, 3, 4}), f32({5, 4, 6})}),
              Says("(2, 3, 4)", "(5, 4, 6)", "do not broadcast"));
  EXPECT_THAT(value_refusal("matmul", {f32({4}), f32({5})}), Says("(4)", "(5)"));
  EXPECT_THAT(value_refusal("matmul", {f32({}), f32({5})}), Says("'a'", "no dimensions"));
  EXPECT_THAT(value_refusal("matmul", {f32({3, 4}), f32({4, 5}), f32({4})}), Says("'c'", "(4)", "(3, 5)"));
  EXPECT_THAT(value_refusal("matmul", {f32({3, 4}), f32({4, 5}), f32({1, 3, 5})}), Says("(1, 3, 5)", "(3, 5)"));
}

TEST(MatmulSpec, DtypeErrorsNameBothDtypes) {
  EXPECT_THAT(type_refusal("matmul", {f32({3, 4}), f16({4, 5})}), Says("f32 (3, 4)", "f16 (4, 5)", "one dtype"));
  EXPECT_THAT(type_refusal("matmul", {shaped(DType::fp8e4m3, {3, 4}), f16({4, 5})}), HasSubstr("fp8e4m3"));
  EXPECT_THAT(type_refusal("matmul", {f16({3, 4}), f16({4, 5})}, {{"out_dtype", DType::i32}}),
              Says("'out_dtype' is i32", "f16", "f32"));
  EXPECT_THAT(type_refusal("matmul", {f16({3, 4}), f16({4, 5})}, {{"out_dtype", 1.5}}), HasSubstr("expected a dtype"));
  EXPECT_THAT(type_refusal("matmul", {f16({3, 4}), f16({4, 5}), shaped(DType::bf16, {5})}),
              Says("'c' is bf16", "f16, f32"));
  EXPECT_THAT(type_refusal("matmul", {shaped(DType::i32, {3, 4}), shaped(DType::i32, {4, 5})}), HasSubstr("i32"));
}

TEST(MatmulSpec, AttributeErrors) {
  EXPECT_THAT(value_refusal("matmul", {f16({3, 4}), f16({4, 5})}, {{"precision", std::string("tf32")}}),
              Says("tf32", "f16"));
  EXPECT_THAT(value_refusal("matmul", {f32({3, 4}), f32({4, 5})}, {{"precision", std::string("tf23")}}),
              Says("'tf23'", "did you mean 'tf32'"));
  EXPECT_THAT(value_refusal("matmul", {f32({3, 4}), f32({4, 5})}, {{"num_sms", std::int64_t{-1}}}),
              Says("'num_sms' is -1", "0 for all"));
  const std::vector<TensorView> whole = {shaped(DType::i8, {3, 4}), shaped(DType::i8, {4, 5})};
  EXPECT_THAT(value_refusal("matmul", whole, {{"alpha", 0.5}}), Says("'alpha' is 0.5", "i32"));
  EXPECT_EQ(infer("matmul", whole, {{"alpha", 0.5}, {"out_dtype", DType::f32}})[0].dtype, DType::f32);
}

TEST(MatmulSpec, ScaledMatmulTakesOneScaleForEach) {
  const TensorView a = shaped(DType::fp8e4m3, {3, 4}), b = shaped(DType::fp8e5m2, {4, 5}), scale = f32({});
  EXPECT_EQ(infer("scaled_matmul", {a, b, scale, f32({1})})[0].dtype, DType::bf16);
  EXPECT_THAT(value_refusal("scaled_matmul", {a, b, scale, f32({2})}), Says("'scale_b'", "(2)"));
  EXPECT_THAT(value_refusal("scaled_matmul", {a, b, shaped(DType::fp8e4m3, {}), scale}), HasSubstr("'scale_a'"));
  EXPECT_THAT(type_refusal("scaled_matmul", {f32({3, 4}), b, scale, scale}), Says("'a' is f32", "fp8e4m3"));
}

TEST(LinearSpec, ShapesAndErrors) {
  EXPECT_EQ(infer("linear", {f32({2, 3, 4}), f32({5, 4}), f32({5})})[0].shape, (Dims{2, 3, 5}));
  EXPECT_EQ(infer("linear_relu", {f32({4}), f32({5, 4})})[0].shape, (Dims{5}));
  EXPECT_THAT(value_refusal("linear", {f32({3, 4}), f32({4, 5})}), Says("(3, 4)", "(4, 5)", "last"));
  EXPECT_THAT(value_refusal("linear", {f32({}), f32({4, 5})}), HasSubstr("'x'"));
  EXPECT_THAT(value_refusal("linear", {f32({3, 4}), f32({4})}), Says("'weight'", "(out, in)"));
  EXPECT_THAT(value_refusal("linear", {f32({3, 4}), f32({5, 4}), f32({4})}),
              Says("'bias' has shape (4)", "expected (5)", "(5, 4)"));
  EXPECT_THAT(value_refusal("linear_relu", {f32({3, 4}), f32({5, 4}), f32({1, 5})}), HasSubstr("'linear_relu'"));
  EXPECT_THAT(value_refusal("linear", {f32({3, 4}), f32({5, 4})}, {{"activation", std::string("gelo")}}),
              Says("'gelo'", "none, relu, gelu, silu", "did you mean 'gelu'"));
  EXPECT_THAT(value_refusal("linear", {shaped(DType::i8, {3, 4}), shaped(DType::i8, {5, 4})},
                            {{"activation", std::string("silu")}}),
              Says("'silu'", "i32"));
  EXPECT_THAT(type_refusal("linear", {f32({3, 4}), f16({5, 4})}), Says("'x'", "'weight'"));
}

TEST(MatmulReference, IsTheTextbookProduct) {
  HostTensor a(DType::f32, {2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6});
  HostTensor b(DType::f32, {3, 2}, std::vector<double>{1, 0, -1, 2, 0.5, 1});
  HostTensor c(DType::f32, {2}, std::vector<double>{10, 20});
  EXPECT_THAT(run_reference("matmul", {a.view(), b.view()}).values<double>(), ElementsAre(0.5, 7, 2, 16));
  EXPECT_THAT(run_reference("matmul", {a.view(), b.view(), c.view()}, {{"alpha", 2.0}, {"beta", 0.5}}).values<double>(),
              ElementsAre(6, 24, 9, 42));
  HostTensor column(DType::f32, {3}, std::vector<double>{1, 1, 2});
  EXPECT_THAT(run_reference("matmul", {a.view(), column.view()}).values<double>(), ElementsAre(9, 21));
  EXPECT_THAT(run_reference("matmul", {column.view(), column.view()}).values<double>(), ElementsAre(6));
}

TEST(MatmulReference, BatchesBroadcast) {
  HostTensor a(DType::f64, {2, 1, 1, 2}, std::vector<double>{1, 2, 3, 4});
  HostTensor b(DType::f64, {3, 2, 1}, std::vector<double>{1, 0, 0, 1, 1, 1});
  EXPECT_THAT(run_reference("matmul", {a.view(), b.view()}).values<double>(), ElementsAre(1, 2, 3, 3, 4, 7));
}

TEST(MatmulReference, WholeNumbersAreExactAndWrap) {
  HostTensor a(DType::i8, {1, 2}, std::vector<std::int64_t>{-128, 127});
  HostTensor b(DType::i8, {2, 1}, std::vector<std::int64_t>{-128, 127});
  EXPECT_THAT(run_reference("matmul", {a.view(), b.view()}).values<std::int64_t>(), ElementsAre(128 * 128 + 127 * 127));
  EXPECT_THAT(run_reference("matmul", {a.view(), b.view()}, {{"alpha", 100000.0}}).values<std::int64_t>(),
              ElementsAre(static_cast<std::int32_t>(std::int64_t{100000} * (128 * 128 + 127 * 127))));
}

TEST(MatmulReference, BetaOfZeroDoesNotReadC) {
  HostTensor a(DType::f32, {1, 1}, std::vector<double>{2});
  HostTensor c(DType::f32, {1, 1}, std::vector<double>{std::nan("")});
  EXPECT_THAT(run_reference("matmul", {a.view(), a.view(), c.view()}, {{"beta", 0.0}}).values<double>(),
              ElementsAre(4));
}

TEST(LinearReference, AppliesTheActivationLast) {
  HostTensor x(DType::f64, {2, 2}, std::vector<double>{1, -1, 2, 0});
  HostTensor weight(DType::f64, {1, 2}, std::vector<double>{1, 2});
  HostTensor bias(DType::f64, {1}, std::vector<double>{0.5});
  const auto linear = [&](const char* activation) {
    return run_reference("linear", {x.view(), weight.view(), bias.view()}, {{"activation", std::string(activation)}})
        .values<double>();
  };
  EXPECT_THAT(linear("none"), ElementsAre(-0.5, 2.5));
  EXPECT_THAT(linear("relu"), ElementsAre(0, 2.5));
  EXPECT_THAT(linear("silu"), ElementsAre(::testing::DoubleNear(-0.1887703343990727, 1e-15),
                                          ::testing::DoubleNear(2.3103545499468914, 1e-14)));
  EXPECT_THAT(linear("gelu"), ElementsAre(::testing::DoubleNear(-0.15426876936299344, 1e-15),
                                          ::testing::DoubleNear(2.4844758366855597, 1e-14)));
  EXPECT_THAT(run_reference("linear_relu", {x.view(), weight.view(), bias.view()}).values<double>(),
              ElementsAre(0, 2.5));
}

}  // namespace
}  // namespace kiln::test
