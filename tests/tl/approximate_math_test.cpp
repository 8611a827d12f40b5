#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kCount = 4096;

std::string text(const std::string& expression) {
  return R"(
#include <kiln/tl.hpp>
template <int N>
KILN_KERNEL void apply(const float* x_data, const float* y_data, float* out) {
  const auto i = tl::arange<N>();
  const auto x = tl::load(x_data + i), y = tl::load(y_data + i);
  tl::store(out + i, )" +
         expression + ");\n}\n";
}

/// Units in the last place, subnormal numbers having that of the smallest normal one.
double units_apart(float value, double exact) {
  if (std::isnan(value) || std::isnan(exact)) return std::isnan(value) && std::isnan(exact) ? 0 : INFINITY;
  if (std::isinf(value) || std::isinf(exact)) return static_cast<double>(value) == exact ? 0 : INFINITY;
  const int exponent = std::max(std::ilogb(exact == 0 ? 1e-300 : exact), std::numeric_limits<float>::min_exponent - 1);
  return std::abs(static_cast<double>(value) - exact) / std::ldexp(1, exponent - 23);
}

struct Function {
  const char* expression;
  std::function<double(double, double)> exact;
  double low, high;                                   ///< of x; y is of the same numbers
  std::function<double(double)> units, units_on_gpu;  ///< at x
};

std::function<double(double)> always(double units) {
  return [units](double) { return units; };
}
const auto kExp = [](double x, double) { return std::exp(x); };
const auto kSigmoid = [](double x, double) { return 1 / (1 + std::exp(-x)); };
const auto kRoot = [](double x, double) { return std::sqrt(x); };
const auto kQuotient = [](double x, double y) { return x / y; };

class ApproximateMath : public TileTest {};

TEST_P(ApproximateMath, IsAsAccurateAsItSays) {
  const Function functions[] = {
      {"tl::exp(x)", kExp, -87, 88, always(4), [](double x) { return 2 + 2 * std::abs(x); }},
      {"tl::exp_precise(x)", kExp, -103, 88, always(4), always(2)},
      {"tl::exp2(x)", [](double x, double) { return std::exp2(x); }, -125, 127, always(4), always(2.1)},
      {"tl::sigmoid(x)", kSigmoid, -40, 80, always(6), [](double x) { return 6 + 2 * std::abs(x); }},
      {"tl::sigmoid_precise(x)", kSigmoid, -80, 80, always(6), always(4)},
      {"tl::sqrt(x)", kRoot, 1e-30, 1e30, always(0.5), always(2)},
      {"tl::sqrt_rn(x)", kRoot, 0, 1e30, always(0.5), always(0.5)},
      {"x / y", kQuotient, 1e-5, 1e5, always(0.5), always(2)},
      {"tl::div_rn(x, y)", kQuotient, -1e38, 1e38, always(0.5), always(0.5)},
      {"tl::div_rn(1, y)", [](double, double y) { return 1 / y; }, -1e38, 1e38, always(0.5), always(0.5)},
  };
  for (const Function& function : functions) {
    SCOPED_TRACE(function.expression);
    std::uniform_real_distribution<float> draw(static_cast<float>(function.low), static_cast<float>(function.high));
    std::vector<float> x(kCount), y(kCount);
    for (float& value : x) value = draw(random_);
    for (float& value : y) value = draw(random_);
    std::vector<Tensor> tensors{make_f32(x), make_f32(y), make_f32(std::vector<float>(kCount, 77))};
    TextKernel{"tests/tl/apply.hpp", text(function.expression), "apply", {kCount}}.run(GetParam(), {1, 1, 1}, tensors);
    const std::vector<float> results = read_f32(tensors[2]);
    const auto& units = GetParam().is_cuda() ? function.units_on_gpu : function.units;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = function.exact(static_cast<double>(x[i]), static_cast<double>(y[i]));
      ASSERT_LE(units_apart(results[i], exact), units(static_cast<double>(x[i]))) << "x " << x[i] << ", y " << y[i];
    }
  }
}

TEST_P(ApproximateMath, NansArePropagatedAsAsked) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(kCount), y(kCount);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % 3 == 1 ? nan : static_cast<float>(i % 97);
    y[i] = i % 3 == 2 ? nan : static_cast<float>(i % 89);
  }
  const struct {
    const char* expression;
    std::function<float(float, float)> expected;
  } cases[] = {
      {"(tl::maximum<tl::PropagateNan::none>(x, y))", [](float a, float b) { return std::fmax(a, b); }},
      {"(tl::minimum<tl::PropagateNan::none>(x, y))", [](float a, float b) { return std::fmin(a, b); }},
      {"tl::maximum(x, y)", [nan](float a, float b) { return std::isnan(a) || std::isnan(b) ? nan : std::fmax(a, b); }},
      {"(y - y + tl::max<tl::PropagateNan::none>(x))", [nan](float, float b) { return std::isnan(b) ? nan : 96; }},
      {"(y - y + tl::min<0, tl::PropagateNan::none>(x))", [nan](float, float b) { return std::isnan(b) ? nan : 0; }},
      {"(y - y + tl::max(x))", [nan](float, float) { return nan; }},
  };
  for (const auto& [expression, expected] : cases) {
    SCOPED_TRACE(expression);
    std::vector<Tensor> tensors{make_f32(x), make_f32(y), make_f32(std::vector<float>(kCount, 77))};
    TextKernel{"tests/tl/apply.hpp", text(expression), "apply", {kCount}}.run(GetParam(), {1, 1, 1}, tensors);
    const std::vector<float> results = read_f32(tensors[2]);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(units_apart(results[i], static_cast<double>(expected(x[i], y[i]))), 0)
          << "x " << x[i] << ", y " << y[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ApproximateMath, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ApproximateMath);

}  // namespace
}  // namespace kiln::test
