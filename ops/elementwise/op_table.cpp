#include "ops/elementwise/op_table.hpp"

#include <cmath>
#include <numbers>

namespace kiln::elementwise {
namespace {

using enum DTypeRule;
using Arguments = ReferenceArguments;

constexpr InputRange kPositive{1e-3, 4};
constexpr InputRange kShiftCounts{0, 9};
// Those below are never destroyed: threads may still dispatch while the process exits.

/// Of integers: a zero divisor is no division.
const std::vector<InputRange>& kDivision = *new std::vector<InputRange>{{-100, 100}, {1, 9}};

std::vector<Form> one(std::string functor, const ReferenceFunctions& functions) {
  return {{std::move(functor), functions}};
}

ScalarAttribute number(std::string name, AttributeValue fallback, int slot, std::string doc) {
  return {{std::move(name), std::move(fallback), false, std::move(doc)}, slot, false};
}
ScalarAttribute bound(std::string name, int slot, std::string doc) {
  return {{std::move(name), std::monostate{}, false, std::move(doc)}, slot, true};
}
const ScalarAttribute& kAlpha =
    *new ScalarAttribute(number("alpha", 1.0, 0, "factor of y; a whole number where the result is an integer"));

std::size_t has_alpha(const Attributes& attributes, DType) {
  return attributes.get_double("alpha") != 1.0 ? 1 : 0;
}
std::size_t equals_nan(const Attributes& attributes, DType) {
  return attributes.get_bool("equal_nan") ? 1 : 0;
}
std::size_t is_tanh(const Attributes& attributes, DType) {
  return attributes.get_string("approximate") == "tanh" ? 1 : 0;
}
std::size_t is_whole(const Attributes&, DType compute) {
  return is_floating(compute) ? 0 : 1;
}
std::size_t missing_bound(const Attributes& attributes, DType) {
  return attributes.is_none("max") ? 1U : (attributes.is_none("min") ? 2U : 0U);
}

template <typename T>
T fill_value(const T*, const Arguments& arguments) {
  return arguments.scalar<T>(0);
}

bool close(double x, double y, const Arguments& arguments) {
  const double difference = std::abs(x - y);
  return x == y ||
         (std::isfinite(difference) && difference <= arguments.scalars.f[1] + arguments.scalars.f[0] * std::abs(y));
}

template <typename T>
T relu(T x) {
  return x < T{} ? T{} : x;  // a NaN compares false and stays
}

std::vector<OpRow> arithmetic_ops() {
  return {
      {.name = "add",
       .arity = 2,
       .doc = "x + alpha * y; integers wrap, bool is logical or",
       .accuracy = Accuracy::summed,
       .forms = {{"Add", reference<2>([](auto x, auto y) { return plus(x, y); })},
                 {"AddAlpha", reference<2>([](auto x, auto y, const Arguments& a) {
                    return plus(x, times(a.scalar<decltype(x)>(0), y));
                  })}},
       .choose_form = has_alpha,
       .narrow_arithmetic = true,
       .scalars = {kAlpha},
       .examples = {{{"alpha", -1.0}}}},
      {.name = "sub",
       .arity = 2,
       .allows_bool = false,
       .doc = "x - alpha * y; integers wrap",
       .accuracy = Accuracy::summed,
       .forms = {{"Sub", reference<2>([](auto x, auto y) { return minus(x, y); })},
                 {"SubAlpha", reference<2>([](auto x, auto y, const Arguments& a) {
                    return minus(x, times(a.scalar<decltype(x)>(0), y));
                  })}},
       .choose_form = has_alpha,
       .narrow_arithmetic = true,
       .scalars = {kAlpha},
       .examples = {{{"alpha", -1.0}}}},
      {.name = "mul",
       .arity = 2,
       .doc = "x * y; integers wrap, bool is logical and",
       .forms = one("Mul", reference<2>([](auto x, auto y) { return times(x, y); })),
       .narrow_arithmetic = true},
      {.name = "div",
       .arity = 2,
       .rule = to_float,
       .doc = "x / y as floats; integers give f32",
       .flops = 8,
       .forms = one("Div", float_reference<2>([](double x, double y) { return x / y; }))},
      {.name = "floor_div",
       .arity = 2,
       .allows_bool = false,
       .doc = "x / y rounded towards minus infinity, as Python's //; integers: 0 for a zero divisor, the lowest value "
              "// -1 wraps",
       .flops = 4,
       .forms = one("FloorDiv", reference<2>([](auto x, auto y) { return floor_divide(x, y); })),
       .integer_ranges = kDivision},
      {.name = "remainder",
       .arity = 2,
       .allows_bool = false,
       .doc = "x - y * floor_div(x, y), with the sign of y, as Python's %; integers: 0 for a zero divisor",
       .flops = 4,
       .accuracy = Accuracy::function,
       .forms = one("Remainder", reference<2>([](auto x, auto y) { return floor_remainder(x, y); })),
       .integer_ranges = kDivision},
      {.name = "pow",
       .arity = 2,
       .allows_bool = false,
       .doc = "x to the power y; integers wrap, and a negative exponent gives 0 (1 for base 1, 1 or -1 for base -1)",
       .flops = 20,
       .accuracy = Accuracy::function,
       .forms = one("Pow", reference<2>([](auto x, auto y) { return power(x, y); })),
       .ranges = {{0.25, 4}, {-4, 4}},
       .integer_ranges = {{-9, 9}, {0, 4}}},
      {.name = "maximum",
       .arity = 2,
       .doc = "the larger of x and y; NaN if either is",
       .forms = one("Maximum", reference<2>([](auto x, auto y) { return maximum(x, y); }))},
      {.name = "minimum",
       .arity = 2,
       .doc = "the smaller of x and y; NaN if either is",
       .forms = one("Minimum", reference<2>([](auto x, auto y) { return minimum(x, y); }))},
      {.name = "atan2",
       .arity = 2,
       .rule = to_float,
       .doc = "the angle of the point (y, x), x being the ordinate as in torch.atan2(input, other); integers give f32",
       .flops = 20,
       .accuracy = Accuracy::function,
       .forms = one("Atan2", float_reference<2>([](double x, double y) { return std::atan2(x, y); }))},
      {.name = "neg",
       .allows_bool = false,
       .doc = "-x; integers wrap",
       .forms = one("Neg", reference<1>([](auto x) {
                      // 0 - x would lose the sign of a floating zero.
                      if constexpr (std::is_floating_point_v<decltype(x)>)
                        return -x;
                      else
                        return minus(decltype(x){}, x);
                    }))},
      {.name = "abs",
       .allows_bool = false,
       .doc = "|x|; the lowest signed integer stays as it is",
       .forms = one("Abs", reference<1>([](auto x) {
                      if constexpr (std::is_floating_point_v<decltype(x)>)
                        return std::abs(x);
                      else
                        return x < 0 ? minus(decltype(x){}, x) : x;
                    }))},
      {.name = "sign",
       .doc = "-1, 0 or 1; NaN for NaN",
       .forms = one("Sign", reference<1>([](auto x) {
                      using T = decltype(x);
                      return is_nan(x) ? x : static_cast<T>(static_cast<T>(x > T{}) - static_cast<T>(x < T{}));
                    }))},
  };
}

std::vector<OpRow> comparison_ops() {
  const auto row = [](std::string name, std::string functor, std::string doc, const ReferenceFunctions& functions) {
    return OpRow{.name = std::move(name),
                 .arity = 2,
                 .rule = comparison,
                 .doc = std::move(doc),
                 .forms = one(std::move(functor), functions)};
  };
  return {
      row("eq", "Eq", "x == y; NaN equals nothing", reference<2>([](auto x, auto y) { return x == y; })),
      row("ne", "Ne", "x != y; true for NaN", reference<2>([](auto x, auto y) { return x != y; })),
      row("lt", "Lt", "x < y; false for NaN", reference<2>([](auto x, auto y) { return x < y; })),
      row("le", "Le", "x <= y; false for NaN", reference<2>([](auto x, auto y) { return x <= y; })),
      row("gt", "Gt", "x > y; false for NaN", reference<2>([](auto x, auto y) { return x > y; })),
      row("ge", "Ge", "x >= y; false for NaN", reference<2>([](auto x, auto y) { return x >= y; })),
      {.name = "isclose",
       .arity = 2,
       .rule = closeness,
       .doc =
           "x == y or |x - y| <= atol + rtol * |y|, which an infinite difference never is; equal_nan: NaN is close to "
           "NaN; integers are compared as f64",
       .flops = 4,
       .accuracy = Accuracy::function,
       .forms = {{"IsClose", float_reference<2>([](double x, double y, const Arguments& a) { return close(x, y, a); })},
                 {"IsCloseEqualNan", float_reference<2>([](double x, double y, const Arguments& a) {
                    return (std::isnan(x) && std::isnan(y)) || close(x, y, a);
                  })}},
       .choose_form = equals_nan,
       .scalars = {number("rtol", 1e-5, 0, "tolerance relative to |y|"),
                   number("atol", 1e-8, 1, "tolerance beside it")},
       .attributes = {{"equal_nan", false, false, "whether NaN is close to NaN"}},
       .examples = {{{"rtol", 0.5}, {"equal_nan", true}}}},
  };
}

std::vector<OpRow> logical_ops() {
  const auto row = [](std::string name, std::string functor, int arity, std::string doc,
                      const ReferenceFunctions& functions) {
    return OpRow{.name = std::move(name),
                 .arity = arity,
                 .rule = predicate,
                 .doc = std::move(doc),
                 .forms = one(std::move(functor), functions)};
  };
  return {
      row("logical_and", "LogicalAnd", 2, "x != 0 and y != 0",
          reference<2>([](auto x, auto y) { return x != 0 && y != 0; })),
      row("logical_or", "LogicalOr", 2, "x != 0 or y != 0",
          reference<2>([](auto x, auto y) { return x != 0 || y != 0; })),
      row("logical_xor", "LogicalXor", 2, "exactly one of x and y is not 0",
          reference<2>([](auto x, auto y) { return (x != 0) != (y != 0); })),
      row("logical_not", "LogicalNot", 1, "x == 0", reference<1>([](auto x) { return x == 0; })),
      row("isnan", "IsNan", 1, "whether x is NaN; false for integers", reference<1>([](auto x) { return is_nan(x); })),
      row("isinf", "IsInf", 1, "whether x is infinite; false for integers", reference<1>([](auto x) {
            if constexpr (std::is_floating_point_v<decltype(x)>)
              return std::isinf(x);
            else
              return false;
          })),
  };
}

std::vector<OpRow> bitwise_ops() {
  const auto row = [](std::string name, std::string functor, int arity, std::string doc,
                      const ReferenceFunctions& functions) {
    return OpRow{.name = std::move(name),
                 .arity = arity,
                 .rule = bitwise,
                 .doc = std::move(doc),
                 .forms = one(std::move(functor), functions)};
  };
  std::vector<OpRow> rows = {
      row("bitwise_and", "BitwiseAnd", 2, "x & y, of integers or bools",
          integer_reference<2>([](auto x, auto y) { return x & y; })),
      row("bitwise_or", "BitwiseOr", 2, "x | y, of integers or bools",
          integer_reference<2>([](auto x, auto y) { return x | y; })),
      row("bitwise_xor", "BitwiseXor", 2, "x ^ y, of integers or bools",
          integer_reference<2>([](auto x, auto y) { return x ^ y; })),
      row("bitwise_not", "BitwiseNot", 1, "~x; of a bool, its negation",
          integer_reference<1>([](auto x, const Arguments& a) {
            return a.width_bits == 1 ? static_cast<decltype(x)>(x == 0) : static_cast<decltype(x)>(~x);
          })),
      row("bitwise_left_shift", "BitwiseLeftShift", 2,
          "x << y; 0 where y is negative or at least the number of bits of the result's dtype",
          integer_reference<2>([](auto x, auto y, const Arguments& a) { return shift_left(x, y, a.width_bits); })),
      row("bitwise_right_shift", "BitwiseRightShift", 2,
          "x >> y, filling with the sign; 0, or -1 for a negative x, where y is negative or at least the number of "
          "bits of the "
          "result's dtype",
          integer_reference<2>([](auto x, auto y, const Arguments& a) { return shift_right(x, y, a.width_bits); })),
  };
  for (OpRow& shift : rows)
    if (shift.name.ends_with("shift")) {
      shift.allows_bool = false;
      shift.ranges = {{-100, 100}, kShiftCounts};
    }
  return rows;
}

std::vector<OpRow> float_ops() {
  const auto row = [](std::string name, std::string functor, std::string doc, double flops,
                      const ReferenceFunctions& functions, std::vector<InputRange> ranges = {},
                      Accuracy accuracy = Accuracy::function) {
    return OpRow{.name = std::move(name),
                 .rule = to_float,
                 .doc = std::move(doc) + "; integers give f32",
                 .flops = flops,
                 .accuracy = accuracy,
                 .forms = one(std::move(functor), functions),
                 .ranges = std::move(ranges)};
  };
  return {
      row("exp", "Exp", "e to the power x", 8, float_reference<1>([](double x) { return std::exp(x); })),
      row("exp2", "Exp2", "2 to the power x", 6, float_reference<1>([](double x) { return std::exp2(x); })),
      row("expm1", "Expm1", "e to the power x, minus 1, exact near 0", 10,
          float_reference<1>([](double x) { return std::expm1(x); })),
      row("log", "Log", "natural logarithm", 8, float_reference<1>([](double x) { return std::log(x); }), {kPositive}),
      row("log2", "Log2", "logarithm to base 2", 8, float_reference<1>([](double x) { return std::log2(x); }),
          {kPositive}),
      row("log1p", "Log1p", "natural logarithm of 1 + x, exact near 0", 10,
          float_reference<1>([](double x) { return std::log1p(x); }), {{-0.99, 4}}),
      row("sqrt", "Sqrt", "square root", 1, float_reference<1>([](double x) { return std::sqrt(x); }), {{0, 4}},
          Accuracy::exact),
      row("rsqrt", "Rsqrt", "1 / sqrt(x)", 2, float_reference<1>([](double x) { return 1 / std::sqrt(x); }),
          {kPositive}),
      row("reciprocal", "Reciprocal", "1 / x", 8, float_reference<1>([](double x) { return 1 / x; }), {},
          Accuracy::exact),
      row("sin", "Sin", "sine, x in radians", 20, float_reference<1>([](double x) { return std::sin(x); })),
      row("cos", "Cos", "cosine, x in radians", 20, float_reference<1>([](double x) { return std::cos(x); })),
      row("tan", "Tan", "tangent, x in radians", 20, float_reference<1>([](double x) { return std::tan(x); })),
      row("tanh", "Tanh", "hyperbolic tangent", 12, float_reference<1>([](double x) { return std::tanh(x); })),
      row("erf", "Erf", "error function", 20, float_reference<1>([](double x) { return std::erf(x); })),
      row("sigmoid", "Sigmoid", "1 / (1 + exp(-x))", 10,
          float_reference<1>([](double x) { return 1 / (1 + std::exp(-x)); })),
  };
}

std::vector<OpRow> activation_ops() {
  return {
      {.name = "relu",
       .allows_bool = false,
       .doc = "max(x, 0); NaN for NaN",
       .forms = one("Relu", reference<1>([](auto x) { return relu(x); }))},
      {.name = "gelu",
       .rule = float_only,
       .doc = "x * Phi(x), Phi being the normal distribution; approximate=\"tanh\": 0.5 x (1 + tanh(sqrt(2/pi) (x + "
              "0.044715 x^3)))",
       .flops = 24,
       .accuracy = Accuracy::composed,
       .forms = {{"Gelu",
                  float_reference<1>([](double x) { return 0.5 * x * (1 + std::erf(x * std::numbers::sqrt2 / 2)); }),
                  "GeluNarrow"},
                 {"GeluTanh", float_reference<1>([](double x) {
                    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
                    return 0.5 * x * (1 + std::tanh(scale * (x + 0.044715 * x * x * x)));
                  })}},
       .choose_form = is_tanh,
       .attributes = {{"approximate", std::string("none"), false, "\"none\" (erf) or \"tanh\""}},
       .examples = {{{"approximate", std::string("tanh")}}}},
      {.name = "silu",
       .rule = float_only,
       .doc = "x / (1 + exp(-x))",
       .flops = 11,
       .accuracy = Accuracy::function,
       .forms = one("Silu", float_reference<1>([](double x) { return x / (1 + std::exp(-x)); }))},
      {.name = "leaky_relu",
       .rule = float_only,
       .doc = "x where x > 0, negative_slope * x elsewhere",
       .flops = 2,
       .forms = one("LeakyRelu",
                    float_reference<1>([](double x, const Arguments& a) { return x > 0 ? x : a.scalars.f[0] * x; })),
       .scalars = {number("negative_slope", 0.01, 0, "slope below 0")},
       .examples = {{{"negative_slope", 0.25}}}},
      {.name = "elu",
       .rule = float_only,
       .doc = "x where x > 0, alpha * (exp(x) - 1) elsewhere",
       .flops = 12,
       .accuracy = Accuracy::function,
       .forms = one("Elu", float_reference<1>([](double x, const Arguments& a) {
                      return x > 0 ? x : a.scalars.f[0] * std::expm1(x);
                    })),
       .scalars = {number("alpha", 1.0, 0, "factor below 0")},
       .examples = {{{"alpha", 0.5}}}},
  };
}

std::vector<OpRow> rounding_ops() {
  const auto row = [](std::string name, std::string functor, std::string doc, const ReferenceFunctions& functions) {
    return OpRow{.name = std::move(name),
                 .allows_bool = false,
                 .doc = std::move(doc) + "; integers stay as they are",
                 .forms = {{std::move(functor), functions}, {"Cast", reference<1>([](auto x) { return x; })}},
                 .choose_form = is_whole};
  };
  return {
      row("floor", "Floor", "rounds down", float_reference<1>([](double x) { return std::floor(x); })),
      row("ceil", "Ceil", "rounds up", float_reference<1>([](double x) { return std::ceil(x); })),
      row("round", "Round", "rounds to the nearest whole number, halves to even",
          float_reference<1>([](double x) { return std::nearbyint(x); })),
      row("trunc", "Trunc", "rounds towards 0", float_reference<1>([](double x) { return std::trunc(x); })),
  };
}

std::vector<OpRow> selection_ops() {
  const auto clamp_low = [](auto x, const Arguments& a) { return maximum(x, a.scalar<decltype(x)>(0)); };
  const auto clamp_high = [](auto x, const Arguments& a) { return minimum(x, a.scalar<decltype(x)>(1)); };
  const auto clamp_both = [](auto x, const Arguments& a) {
    using T = decltype(x);
    return minimum(maximum(x, a.scalar<T>(0)), a.scalar<T>(1));
  };
  return {
      {.name = "clamp",
       .allows_bool = false,
       .doc = "min(max(x, min), max), either bound optional; NaN for NaN, max everywhere where min > max",
       .flops = 2,
       .forms = {{"Clamp", reference<1>(clamp_both)},
                 {"ClampMin", reference<1>(clamp_low)},
                 {"ClampMax", reference<1>(clamp_high)}},
       .choose_form = missing_bound,
       .scalars = {bound("min", 0, "lower bound, a number or None"), bound("max", 1, "upper bound, a number or None")},
       .examples = {{{"min", std::int64_t{1}}, {"max", std::int64_t{3}}},
                    {{"min", std::int64_t{0}}},
                    {{"max", std::int64_t{1}}},
                    {{"min", -0.5}, {"max", 0.5}}}},
      {.name = "where",
       .arity = 3,
       .rule = where,
       .doc = "x where the condition holds, y elsewhere",
       .forms = one("Where", reference<3>([](auto condition, auto x, auto y) { return condition != 0 ? x : y; }))},
      {.name = "cast",
       .rule = cast,
       .doc = "x as another dtype; float to integer truncates and saturates (NaN gives 0), integer to integer wraps, "
              "anything to bool "
              "is x != 0",
       .flops = 0,
       .forms = one("Cast", reference<1>([](auto x) { return x; })),
       .attributes = {{"dtype", DType::f32, true, "dtype of the result"}},
       .examples =
           {{{"dtype", DType::i32}}, {{"dtype", DType::f16}}, {{"dtype", DType::u8}}, {{"dtype", DType::bool_}}}},
      {.name = "fill",
       .rule = fill,
       .doc = "value everywhere, in the shape and dtype of x, whose elements are not read; converted as by cast",
       .flops = 0,
       .forms = one("Fill", {&fill_value<double>, &fill_value<std::int64_t>, &fill_value<std::uint64_t>}),
       .scalars = {{{"value", std::monostate{}, true, "a number"}, 0, false}},
       .examples = {{{"value", 2.5}}, {{"value", std::int64_t{-3}}}}},
  };
}

std::vector<OpRow> fused_ops() {
  return {
      {.name = "add_relu",
       .arity = 2,
       .allows_bool = false,
       .doc = "max(x + y, 0); integers wrap first",
       .flops = 2,
       .forms = one("AddRelu", reference<2>([](auto x, auto y, const Arguments& a) {
                      return relu(wrap(plus(x, y), a.width_bits));
                    }))},
      {.name = "mul_add",
       .arity = 3,
       .doc = "x * y + z; integers wrap",
       .flops = 2,
       .accuracy = Accuracy::summed,
       .forms = one("MulAdd", reference<3>([](auto x, auto y, auto z) {
                      // Fused, as the kernel may be: an overflow of the product alone does not show.
                      if constexpr (std::is_floating_point_v<decltype(x)>)
                        return std::fma(x, y, z);
                      else
                        return plus(times(x, y), z);
                    }))},
      {.name = "axpby",
       .arity = 2,
       .allows_bool = false,
       .doc = "alpha * x + beta * y; integers wrap",
       .flops = 3,
       .accuracy = Accuracy::summed,
       .forms = one("Axpby", reference<2>([](auto x, auto y, const Arguments& a) {
                      using T = decltype(x);
                      return plus(times(a.scalar<T>(0), x), times(a.scalar<T>(1), y));
                    })),
       .scalars = {number("alpha", 1.0, 0, "factor of x; a whole number where the result is an integer"),
                   number("beta", 1.0, 1, "factor of y; a whole number where the result is an integer")},
       .examples = {{{"alpha", -1.0}, {"beta", 1.0}}}},
  };
}

}  // namespace

const std::vector<OpRow>& op_table() {
  static const std::vector<OpRow>& table = *new std::vector<OpRow>([] {
    std::vector<OpRow> rows;
    for (auto* family : {arithmetic_ops, comparison_ops, logical_ops, bitwise_ops, float_ops, activation_ops,
                         rounding_ops, selection_ops, fused_ops})
      for (OpRow& row : family()) rows.push_back(std::move(row));
    return rows;
  }());
  return table;
}

std::vector<ScalarAttribute> scalar_attributes(const OpRow& row) {
  std::vector<ScalarAttribute> scalars = row.scalars;
  if (row.arity == 2)
    scalars.push_back({{"other", std::monostate{}, false,
                        "a number instead of y; it changes the dtype only where its kind is higher"},
                       kOtherSlot,
                       true});
  return scalars;
}

std::string input_name(const OpRow& row, int index) {
  if (row.rule == where) return index == 0 ? "condition" : (index == 1 ? "x" : "y");
  return std::string(1, static_cast<char>('x' + index));
}

}  // namespace kiln::elementwise
