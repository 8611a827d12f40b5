#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/matchers.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kCount = 4096;

TextKernel kernel_of(const std::string& function, DType dtype) {
  return {"tests/tl/exponential.hpp",
          "#include <kiln/tl.hpp>\n"
          "template <typename T, int N>\n"
          "KILN_KERNEL void apply(const T* x, T* out) {\n"
          "  const auto i = tl::arange<N>();\n"
          "  tl::store(out + i, tl::" +
              function + "(tl::load(x + i)));\n}\n",
          "apply",
          {dtype, kCount}};
}

/// Units in the last place; those of subnormal numbers are the smallest there is.
template <typename T>
long double units_apart(T value, long double exact) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(exact)) return std::isnan(value) ? 0 : INFINITY;
  if (static_cast<T>(exact) == value) return 0;  // infinite ones among them
  const int exponent = std::max(exact == 0 ? -20'000 : std::ilogb(exact), Limits::min_exponent - 1);
  return std::abs(static_cast<long double>(value) - exact) / std::ldexp(1.0L, exponent - (Limits::digits - 1));
}

/// Numbers of which results are normal, subnormal, 0 and infinite, and those at which that changes.
template <typename T>
std::vector<T> numbers(T lowest, T highest) {
  std::mt19937_64 random(std::random_device{}());
  std::vector<T> x{0,
                   -T{0},
                   1,
                   -1,
                   40,
                   lowest,
                   highest,
                   std::numeric_limits<T>::infinity(),
                   -1e30f,
                   1e30f,
                   std::numeric_limits<T>::quiet_NaN(),
                   -std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::denorm_min(),
                   std::numeric_limits<T>::max()};
  for (std::uniform_real_distribution<T> draw(lowest, highest); x.size() < kCount / 2;) x.push_back(draw(random));
  for (std::uniform_real_distribution<T> draw(-2, 2); x.size() < kCount;) x.push_back(draw(random));
  return x;
}

template <typename T>
void expect_accurate(const std::string& function, DType dtype, T lowest, T highest, long double (*exact)(long double)) {
  SCOPED_TRACE(function + " of " + std::string(name(dtype)));
  const std::vector<T> x = numbers(lowest, highest);
  std::vector<Tensor> tensors{tensor_of(dtype, x), tensor_of(dtype, std::vector<T>(kCount, 77))};
  kernel_of(function, dtype).run(Device::cpu(), {1, 1, 1}, tensors);
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(units_apart(tensors[1].data_as<T>()[i], exact(static_cast<long double>(x[i]))), 1.2L) << x[i];
}

TEST(ExponentialOnCpu, IsAccurateForAllNumbers) {
  const auto exp = [](long double x) { return std::exp(x); };
  const auto exp2 = [](long double x) { return std::exp2(x); };
  expect_accurate<float>("exp", DType::f32, -105, 90, exp);
  expect_accurate<float>("exp2", DType::f32, -152, 130, exp2);
  expect_accurate<double>("exp", DType::f64, -747, 711, exp);
  expect_accurate<double>("exp2", DType::f64, -1077, 1026, exp2);
}

TEST(ExponentialOnCpu, CallsNoLibrary) {
  for (const char* function : {"exp", "exp2"})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::string code =
          compiler_for(DeviceType::cpu).emit(kernel_of(function, dtype).request(host_cpu_target()), EmitKind::assembly);
      EXPECT_THAT(code, ::testing::Not(::testing::HasSubstr("exp"))) << function;
    }
}

}  // namespace
}  // namespace kiln::test
