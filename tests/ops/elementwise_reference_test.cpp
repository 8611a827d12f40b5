#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLowest64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kLowest32 = std::numeric_limits<std::int32_t>::min();

template <typename T>
std::vector<T> unary(std::string_view op, DType dtype, const std::vector<T>& x, const Attributes& attributes = {}) {
  HostTensor a(dtype, {static_cast<std::int64_t>(x.size())}, x);
  return run_reference(op, {a.view()}, attributes).template values<T>();
}
template <typename T, typename Result = T>
std::vector<Result> binary(std::string_view op, DType dtype, const std::vector<T>& x, const std::vector<T>& y,
                           const Attributes& attributes = {}) {
  HostTensor a(dtype, {static_cast<std::int64_t>(x.size())}, x);
  HostTensor b(dtype, {static_cast<std::int64_t>(y.size())}, y);
  return run_reference(op, {a.view(), b.view()}, attributes).template values<Result>();
}

/// Same value, same sign of zero, or both NaN.
MATCHER_P(SameDouble, expected, "") {
  const double wanted = expected;
  return (std::isnan(arg) && std::isnan(wanted)) || (arg == wanted && std::signbit(arg) == std::signbit(wanted));
}
auto same(const Doubles& values) {
  std::vector<::testing::Matcher<double>> matchers;
  for (const double value : values) matchers.push_back(SameDouble(value));
  return ElementsAreArray(matchers);
}

TEST(ElementwiseReference, FloatFunctionsAreTheFormulasRoundedOnce) {
  const std::map<std::string, double (*)(double)> functions = {
      {"exp", [](double x) { return std::exp(x); }},
      {"exp2", [](double x) { return std::pow(2.0, x); }},
      {"expm1", [](double x) { return std::expm1(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"log2", [](double x) { return std::log2(x); }},
      {"log1p", [](double x) { return std::log1p(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"sin", [](double x) { return std::sin(x); }},
      {"cos", [](double x) { return std::cos(x); }},
      {"tan", [](double x) { return std::tan(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"sigmoid", [](double x) { return 0.5 * (1 + std::tanh(x / 2)); }},
      {"relu", [](double x) { return x > 0 ? x : 0; }},
      {"gelu", [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
      {"silu", [](double x) { return x * 0.5 * (1 + std::tanh(x / 2)); }},
      {"neg", [](double x) { return -x; }},
      {"abs", [](double x) { return x < 0 ? -x : x; }},
      {"leaky_relu", [](double x) { return x > 0 ? x : static_cast<double>(0.01F) * x; }},
      {"elu", [](double x) { return x > 0 ? x : std::exp(x) - 1; }},
  };
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (const auto& [op, function] : functions) {
    const auto& ranges = spec_of(op).input_ranges;
    const InputRange range = ranges.empty() ? InputRange{} : ranges[0];
    std::uniform_real_distribution<float> draw(static_cast<float>(range.low), static_cast<float>(range.high));
    Doubles x(200);
    for (double& value : x) value = static_cast<double>(draw(random));
    const Doubles y = unary(op, DType::f32, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(y[i], function(x[i]), 1e-7 * std::abs(function(x[i])) + 1e-12)
          << op << "(" << x[i] << ") seed " << seed;
  }
}

TEST(ElementwiseReference, GeluTanhEluAndLeakyReluReadTheirAttributes) {
  EXPECT_NEAR(unary<double>("gelu", DType::f64, {1.5}, {{"approximate", std::string("tanh")}})[0],
              0.75 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (1.5 + 0.044715 * 3.375))), 1e-15);
  EXPECT_NEAR(unary<double>("elu", DType::f64, {-2}, {{"alpha", 3.0}})[0], 3 * (std::exp(-2.0) - 1), 1e-15);
  EXPECT_THAT(unary<double>("leaky_relu", DType::f64, {-2, 3}, {{"negative_slope", 0.25}}), ElementsAre(-0.5, 3));
}

TEST(ElementwiseReference, ArithmeticOnFloats) {
  EXPECT_THAT(binary<double>("add", DType::f32, {1, 2}, {10, 20}), ElementsAre(11, 22));
  EXPECT_THAT(binary<double>("add", DType::f32, {1, 2}, {10, 20}, {{"alpha", 0.5}}), ElementsAre(6, 12));
  EXPECT_THAT(binary<double>("sub", DType::f32, {1, 2}, {10, 20}, {{"alpha", 2.0}}), ElementsAre(-19, -38));
  EXPECT_THAT(binary<double>("mul", DType::f16, {3, 300}, {4, 300}), same({12, kInf}));
  EXPECT_THAT(binary<double>("div", DType::f32, {1, -1, 0, 7}, {0, 0, 0, 2}), same({kInf, -kInf, kNan, 3.5}));
  EXPECT_THAT(binary<double>("axpby", DType::f32, {1, 2}, {3, 4}, {{"alpha", 2.0}, {"beta", -1.0}}),
              ElementsAre(-1, 0));
  EXPECT_THAT(binary<double>("add_relu", DType::f32, {1, -5, kNan}, {1, 2, 0}), same({2, 0, kNan}));
  EXPECT_THAT(binary<double>("pow", DType::f64, {2, 9, -8}, {10, 0.5, 3}), ElementsAre(1024, 3, -512));
  EXPECT_THAT(binary<double>("atan2", DType::f64, {1, -1}, {1, -1}), ElementsAre(std::atan2(1, 1), std::atan2(-1, -1)));
  HostTensor x(DType::f32, {2}, Doubles{3e38, 2});
  HostTensor y(DType::f32, {2}, Doubles{2, 3});
  HostTensor z(DType::f32, {2}, Doubles{-3e38, 4});
  const Doubles fused = run_reference("mul_add", {x.view(), y.view(), z.view()}).values<double>();
  EXPECT_NEAR(fused[0], 3e38, 1e31) << "the product alone overflows, the result does not";
  EXPECT_EQ(fused[1], 10);
}

TEST(ElementwiseReference, FloorDivisionAndRemainderFollowPython) {
  const Doubles x = {7, -7, 7, -7, 5.5, -1, 1, -1, 1, kInf, 1, -0.0, 0.0};
  const Doubles y = {2, 2, -2, -2, 2, kInf, kInf, -kInf, -kInf, 2, 0, 3, -3};
  EXPECT_THAT(binary("floor_div", DType::f64, x, y), same({3, -4, -4, 3, 2, -1, 0, 0, -1, kNan, kInf, -0.0, -0.0}));
  EXPECT_THAT(binary("remainder", DType::f64, x, y),
              same({1, 1, -1, -1, 1.5, kInf, 1, -1, -kInf, kNan, kNan, 0.0, -0.0}));
  // 1 / 0.1 rounds to 10, yet 0.1 is a little more than a tenth.
  EXPECT_THAT(binary<double>("floor_div", DType::f64, {1}, {0.1}), ElementsAre(9));
}

TEST(ElementwiseReference, IntegersWrapAndDivisionIsTotal) {
  EXPECT_THAT(binary<std::int64_t>("add", DType::i8, {127, -128}, {1, -1}), ElementsAre(-128, 127));
  EXPECT_THAT(binary<std::int64_t>("mul", DType::i32, {65536, 3}, {65536, 4}), ElementsAre(0, 12));
  EXPECT_THAT(binary<std::int64_t>("sub", DType::u8, {1}, {2}), ElementsAre(255));
  EXPECT_THAT(binary<std::int64_t>("add", DType::i64, {std::numeric_limits<std::int64_t>::max()}, {1}),
              ElementsAre(kLowest64));
  EXPECT_THAT(binary<std::int64_t>("add", DType::i32, {1}, {5}, {{"alpha", 3.0}}), ElementsAre(16));
  for (const DType dtype : {DType::i32, DType::i64}) {
    const std::int64_t lowest = dtype == DType::i32 ? kLowest32 : kLowest64;
    const Integers x = {7, -7, 7, -7, 5, lowest, lowest};
    const Integers y = {2, 2, -2, -2, 0, -1, 0};
    EXPECT_THAT(binary("floor_div", dtype, x, y), ElementsAre(3, -4, -4, 3, 0, lowest, 0));
    EXPECT_THAT(binary("remainder", dtype, x, y), ElementsAre(1, 1, -1, -1, 0, 0, 0));
    EXPECT_THAT(unary<std::int64_t>("neg", dtype, {5, lowest}), ElementsAre(-5, lowest));
    EXPECT_THAT(unary<std::int64_t>("abs", dtype, {-5, lowest}), ElementsAre(5, lowest));
  }
  EXPECT_THAT(binary<std::int64_t>("floor_div", DType::u8, {200, 200}, {7, 0}), ElementsAre(28, 0));
  EXPECT_THAT(binary<std::int64_t>("pow", DType::i32, {2, -3, 2, 1, -1, -1, 0, 3}, {31, 3, -1, -5, -3, -4, 0, 21}),
              ElementsAre(kLowest32, -27, 0, 1, -1, 1, 1, static_cast<std::int32_t>(10460353203LL)));
  EXPECT_THAT(binary<std::int64_t>("add_relu", DType::i8, {100, 5}, {100, -3}), ElementsAre(0, 2))
      << "wraps before the maximum";
  EXPECT_THAT((binary<std::int64_t, double>("div", DType::i32, {7, 1}, {2, 0})), same({3.5, kInf}));
}

TEST(ElementwiseReference, ShiftsAreTotal) {
  const Integers x = {1, 1, -8, -8, -8, 8, 1};
  const Integers y = {31, 32, 1, 40, -1, -1, 0};
  EXPECT_THAT(binary("bitwise_left_shift", DType::i32, x, y), ElementsAre(kLowest32, 0, -16, 0, 0, 0, 1));
  EXPECT_THAT(binary("bitwise_right_shift", DType::i32, x, y), ElementsAre(0, 0, -4, -1, -1, 0, 1));
  EXPECT_THAT(binary<std::int64_t>("bitwise_left_shift", DType::u8, {255, 255}, {4, 8}), ElementsAre(240, 0));
  EXPECT_THAT(binary<std::int64_t>("bitwise_right_shift", DType::u8, {255, 255}, {4, 8}), ElementsAre(15, 0));
}

TEST(ElementwiseReference, BitsAndBools) {
  EXPECT_THAT(binary<std::int64_t>("bitwise_and", DType::u8, {12}, {10}), ElementsAre(8));
  EXPECT_THAT(binary<std::int64_t>("bitwise_or", DType::i32, {12}, {10}), ElementsAre(14));
  EXPECT_THAT(binary<std::int64_t>("bitwise_xor", DType::i64, {12}, {10}), ElementsAre(6));
  EXPECT_THAT(unary<std::int64_t>("bitwise_not", DType::i32, {0, 5}), ElementsAre(-1, -6));
  EXPECT_THAT(unary<std::int64_t>("bitwise_not", DType::u16, {0, 5}), ElementsAre(65535, 65530));
  const Integers p = {0, 0, 1, 1};
  const Integers q = {0, 1, 0, 1};
  EXPECT_THAT(unary<std::int64_t>("bitwise_not", DType::bool_, {0, 1}), ElementsAre(1, 0));
  EXPECT_THAT(binary("add", DType::bool_, p, q), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(binary("mul", DType::bool_, p, q), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(binary("maximum", DType::bool_, p, q), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(binary("logical_and", DType::bool_, p, q), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(binary("logical_or", DType::bool_, p, q), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(binary("logical_xor", DType::bool_, p, q), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(unary<std::int64_t>("logical_not", DType::i32, {0, 7}), ElementsAre(1, 0));
  EXPECT_THAT((binary<double, std::int64_t>("logical_and", DType::f32, {kNan, 0.5}, {1, 0})), ElementsAre(1, 0));
}

TEST(ElementwiseReference, NansAndInfinities) {
  const Doubles x = {kNan, 1, kInf, -kInf, 2};
  const Doubles y = {1, kNan, 5, 5, 3};
  EXPECT_THAT(binary("maximum", DType::f32, x, y), same({kNan, kNan, kInf, 5, 3}));
  EXPECT_THAT(binary("minimum", DType::f32, x, y), same({kNan, kNan, 5, -kInf, 2}));
  EXPECT_THAT(unary<double>("relu", DType::f32, {kNan, -kInf, kInf}), same({kNan, 0, kInf}));
  EXPECT_THAT(unary<double>("sign", DType::f32, {kNan, -kInf, 3, 0}), same({kNan, -1, 1, 0}));
  EXPECT_THAT(unary<double>("clamp", DType::f32, {kNan, -kInf, 3, 0}, {{"min", -1.0}, {"max", 2.0}}),
              same({kNan, -1, 2, 0}));
  EXPECT_THAT(unary<double>("clamp", DType::f32, {0, 9}, {{"min", 5.0}, {"max", 2.0}}), ElementsAre(2, 2));
  EXPECT_THAT(unary<double>("clamp", DType::f32, {0, 9}, {{"min", 5.0}}), ElementsAre(5, 9));
  EXPECT_THAT(unary<double>("clamp", DType::f32, {0, 9}, {{"max", 5.0}}), ElementsAre(0, 5));
  EXPECT_THAT((binary<double, std::int64_t>("eq", DType::f32, {kNan, 1, kInf}, {kNan, 1, kInf})), ElementsAre(0, 1, 1));
  EXPECT_THAT((binary<double, std::int64_t>("ne", DType::f32, {kNan, 1, kInf}, {kNan, 1, kInf})), ElementsAre(1, 0, 0));
  EXPECT_THAT((binary<double, std::int64_t>("lt", DType::f32, {kNan, 1, 2}, {1, 2, 1})), ElementsAre(0, 1, 0));
  EXPECT_THAT((binary<double, std::int64_t>("le", DType::f32, {kNan, 1, 2}, {1, 1, 1})), ElementsAre(0, 1, 0));
  EXPECT_THAT((binary<double, std::int64_t>("gt", DType::f32, {kNan, 1, 2}, {1, 2, 1})), ElementsAre(0, 0, 1));
  EXPECT_THAT((binary<double, std::int64_t>("ge", DType::f32, {kNan, 1, 0}, {1, 1, 1})), ElementsAre(0, 1, 0));
  HostTensor special(DType::f16, {4}, Doubles{kNan, kInf, -kInf, 1});
  EXPECT_THAT(run_reference("isnan", {special.view()}).values<std::int64_t>(), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(run_reference("isinf", {special.view()}).values<std::int64_t>(), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(unary<std::int64_t>("isnan", DType::i32, {5}), ElementsAre(0));
}

TEST(ElementwiseReference, RoundingOps) {
  const Doubles x = {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4};
  EXPECT_THAT(unary("floor", DType::f64, x), same({-3, -2, -1, 0, 1, 2, 2}));
  EXPECT_THAT(unary("ceil", DType::f64, x), same({-2, -1, -0.0, 1, 2, 3, 3}));
  EXPECT_THAT(unary("round", DType::f64, x), same({-2, -2, -0.0, 0, 2, 2, 2}));
  EXPECT_THAT(unary("trunc", DType::f64, x), same({-2, -1, -0.0, 0, 1, 2, 2}));
  EXPECT_THAT(unary<std::int64_t>("floor", DType::i64, {kLowest64, 9007199254740993}),
              ElementsAre(kLowest64, 9007199254740993));
}

TEST(ElementwiseReference, CastsSaturateTruncateAndWrap) {
  const auto cast = [](DType from, const Doubles& x, DType to) {
    HostTensor a(from, {static_cast<std::int64_t>(x.size())}, x);
    return run_reference("cast", {a.view()}, {{"dtype", to}}).values<std::int64_t>();
  };
  EXPECT_THAT(cast(DType::f32, {2.9, -2.9, 1e20, -1e20, kNan, kInf}, DType::i32),
              ElementsAre(2, -2, 2147483647, kLowest32, 0, 2147483647));
  EXPECT_THAT(cast(DType::f32, {-5, 255.9, 256, kNan}, DType::u8), ElementsAre(0, 255, 255, 0));
  EXPECT_THAT(cast(DType::f64, {1e300, -1e300}, DType::i64),
              ElementsAre(std::numeric_limits<std::int64_t>::max(), kLowest64));
  EXPECT_THAT(cast(DType::f32, {0, 0.25, kNan, -0.0}, DType::bool_), ElementsAre(0, 1, 1, 0));
  HostTensor wide(DType::i64, {3}, Integers{300, -1, 1LL << 40});
  EXPECT_THAT(run_reference("cast", {wide.view()}, {{"dtype", DType::u8}}).values<std::int64_t>(),
              ElementsAre(44, 255, 0));
  EXPECT_THAT(run_reference("cast", {wide.view()}, {{"dtype", DType::bool_}}).values<std::int64_t>(),
              ElementsAre(1, 1, 1));
  HostTensor exact(DType::i64, {1}, Integers{(1LL << 53) + 1});
  EXPECT_THAT(run_reference("cast", {exact.view()}, {{"dtype", DType::i64}}).values<std::int64_t>(),
              ElementsAre((1LL << 53) + 1));
}

TEST(ElementwiseReference, NarrowResultsRoundOnceNotTwice) {
  // 1 + 2^-11 + 2^-40 lies just above the middle of two f16 neighbours; by way of f32 it would land on the middle and
  // go to even, 1.
  HostTensor x(DType::f64, {2}, Doubles{1 + 0x1p-11 + 0x1p-40, -(1 + 0x1p-11 + 0x1p-40)});
  EXPECT_THAT(run_reference("cast", {x.view()}, {{"dtype", DType::f16}}).values<double>(),
              ElementsAre(1 + 0x1p-10, -1 - 0x1p-10));
  HostTensor b(DType::f64, {1}, Doubles{1 + 0x1p-8 + 0x1p-40});
  EXPECT_THAT(run_reference("cast", {b.view()}, {{"dtype", DType::bf16}}).values<double>(), ElementsAre(1 + 0x1p-7));
  // An i64 goes to f32 directly: by way of double, 2^60 + 2^36 + 1 would fall on a middle and round down.
  HostTensor i(DType::i64, {1}, Integers{(1LL << 60) + (1LL << 36) + 1});
  EXPECT_THAT(run_reference("add", {i.view()}, {{"other", 0.0}}).values<double>(), ElementsAre(0x1p60 + 0x1p37));
}

TEST(ElementwiseReference, EveryDTypeGoesThroughACastToF64) {
  for (const DType dtype : kAllDTypes) {
    HostTensor x(dtype, {2}, Doubles{1, 0});
    EXPECT_THAT(run_reference("cast", {x.view()}, {{"dtype", DType::f64}}).values<double>(), ElementsAre(1, 0))
        << name(dtype);
    EXPECT_THAT(run_reference("fill", {x.view()}, {{"value", 1.0}}).values<double>(), ElementsAre(1, 1)) << name(dtype);
  }
}

TEST(ElementwiseReference, ScalarsStandForTheSecondOperand) {
  EXPECT_THAT(unary<double>("sub", DType::f32, {5, 7}, {{"other", 2.5}}), ElementsAre(2.5, 4.5));
  EXPECT_THAT(unary<double>("pow", DType::f32, {5, 7}, {{"other", std::int64_t{2}}}), ElementsAre(25, 49));
  EXPECT_THAT(unary<std::int64_t>("add", DType::u8, {250}, {{"other", std::int64_t{10}}}), ElementsAre(4));
  HostTensor ints(DType::i32, {2}, Integers{1, 2});
  EXPECT_THAT(run_reference("mul", {ints.view()}, {{"other", 2.5}}).values<double>(), ElementsAre(2.5, 5));
  HostTensor tenth(DType::f16, {1}, Doubles{0.1});
  EXPECT_THAT(run_reference("eq", {tenth.view()}, {{"other", 0.1}}).values<std::int64_t>(), ElementsAre(1));
}

TEST(ElementwiseReference, StridesBroadcastingAndWhere) {
  HostTensor condition(DType::bool_, {2, 1}, Integers{1, 0});
  HostTensor x(DType::i32, {3}, Integers{1, 2, 3});
  HostTensor y(DType::f32, {}, Doubles{-0.5});
  EXPECT_THAT(run_reference("where", {condition.view(), x.view(), y.view()}).values<double>(),
              ElementsAre(1, 2, 3, -0.5, -0.5, -0.5));

  // A transposed, a reversed and an expanded view of the same six numbers.
  HostTensor data(DType::f32, {6}, Doubles{0, 1, 2, 3, 4, 5});
  TensorView transposed = data.view();
  transposed.shape = {2, 3};
  transposed.strides = {1, 2};
  TensorView reversed = data.view();
  reversed.data = static_cast<float*>(reversed.data) + 5;
  reversed.shape = {2, 3};
  reversed.strides = {-3, -1};
  TensorView expanded = data.view();
  expanded.shape = {2, 3};
  expanded.strides = {0, 2};
  EXPECT_THAT(run_reference("mul_add", {transposed, reversed, expanded}).values<double>(),
              ElementsAre(0 * 5 + 0, 2 * 4 + 2, 4 * 3 + 4, 1 * 2 + 0, 3 * 1 + 2, 5 * 0 + 4));
}

TEST(ElementwiseReference, WritesStridedOutputsInPlaceAndNothingElse) {
  HostTensor data(DType::i32, {6}, Integers{1, 2, 3, 4, 5, 6});
  TensorView even = data.view();
  even.shape = {3};
  even.strides = {2};
  const OpSpec& neg = spec_of("neg");
  const Attributes attributes;
  neg.reference({std::span(&even, 1), std::span(&even, 1), attributes});
  EXPECT_THAT(data.values<std::int64_t>(), ElementsAre(-1, 2, -3, 4, -5, 6));
  HostTensor empty(DType::f32, {0, 4});
  EXPECT_TRUE(run_reference("exp", {empty.view()}).values<double>().empty());
}

}  // namespace
}  // namespace kiln::test
