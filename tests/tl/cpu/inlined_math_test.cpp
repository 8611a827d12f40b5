// exp, exp2, expm1, log, log2 and log1p on CPUs, which the tile language has of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compiler/host_cpu.hpp"
#include "core/cpu_features.hpp"
#include "tests/support/matchers.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kCount = 4096;

TextKernel kernel_of(const std::string& function, DType dtype) {
  return {"tests/tl/inlined_math.hpp",
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
  if (static_cast<T>(exact) == value)  // infinite ones among them
    return exact == 0 && std::signbit(exact) != std::signbit(value) ? INFINITY : 0;
  const int exponent = std::max(exact == 0 ? -20'000 : std::ilogb(exact), Limits::min_exponent - 1);
  return std::abs(static_cast<long double>(value) - exact) / std::ldexp(1.0L, exponent - (Limits::digits - 1));
}

/// Numbers of which results are normal, subnormal, 0, infinite and NaN, and those at which that changes; half of all
/// have any exponent where `of_all_exponents`.
template <typename T>
std::vector<T> numbers(T lowest, T highest, bool of_all_exponents) {
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
                   std::numeric_limits<T>::min(),
                   std::numeric_limits<T>::max()};
  std::uniform_real_distribution<T> draw_exponent(std::log2(std::numeric_limits<T>::denorm_min()),
                                                  std::log2(std::numeric_limits<T>::max()));
  if (of_all_exponents)
    while (x.size() < kCount / 2) x.push_back(std::exp2(draw_exponent(random)));
  for (std::uniform_real_distribution<T> draw(lowest, highest); x.size() < kCount * 3 / 4;) x.push_back(draw(random));
  for (std::uniform_real_distribution<T> draw(-2, 2); x.size() < kCount;) x.push_back(draw(random));
  return x;
}

/// Where a function is the language's own; elsewhere the C library's is called, which may be off by 4.
enum class Inlined : std::uint8_t { always, with_avx512, never };

struct Function {
  const char* name;
  long double (*exact)(long double);
  double units;                                   ///< that its result may be off
  double lowest, highest, lowest_64, highest_64;  ///< most numbers are drawn from here, of f32 and of f64
  bool takes_all_exponents = false;
  Inlined f32 = Inlined::always, f64 = Inlined::always;
};
const Function kFunctions[] = {
    {"exp", [](long double x) { return std::exp(x); }, 1.2, -105, 90, -747, 711},
    {"exp2", [](long double x) { return std::exp2(x); }, 1.2, -152, 130, -1077, 1026},
    {"expm1", [](long double x) { return std::expm1(x); }, 2, -20, 90, -45, 711, false, Inlined::always,
     Inlined::with_avx512},
    {"log", [](long double x) { return std::log(x); }, 1.2, 0.5, 2, 0.5, 2, true, Inlined::with_avx512,
     Inlined::with_avx512},
    {"log2", [](long double x) { return std::log2(x); }, 1.4, 0.5, 2, 0.5, 2, true, Inlined::with_avx512,
     Inlined::with_avx512},
    {"log1p", [](long double x) { return std::log1p(x); }, 1.2, -1, 2, -1, 2, true, Inlined::with_avx512,
     Inlined::never},
};

bool is_inlined(const Function& function, DType dtype) {
  const Inlined inlined = dtype == DType::f64 ? function.f64 : function.f32;
  return inlined == Inlined::always ||
         (inlined == Inlined::with_avx512 && has_feature(host_cpu_target().features, "+avx512f"));
}

template <typename T>
void expect_accurate(const Function& function, DType dtype, T lowest, T highest) {
  SCOPED_TRACE(std::string(function.name) + " of " + std::string(name(dtype)));
  const std::vector<T> x = numbers(lowest, highest, function.takes_all_exponents);
  std::vector<Tensor> tensors{tensor_of(dtype, x), tensor_of(dtype, std::vector<T>(kCount, 77))};
  kernel_of(function.name, dtype).run(Device::cpu(), {1, 1, 1}, tensors);
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(units_apart(tensors[1].data_as<T>()[i], function.exact(static_cast<long double>(x[i]))),
              is_inlined(function, dtype) ? function.units : 4)
        << x[i];
}

TEST(InlinedMathOnCpu, IsAccurateForAllNumbers) {
  for (const Function& function : kFunctions) {
    expect_accurate<float>(function, DType::f32, static_cast<float>(function.lowest),
                           static_cast<float>(function.highest));
    expect_accurate<double>(function, DType::f64, function.lowest_64, function.highest_64);
  }
}

TEST(InlinedMathOnCpu, CallsNoLibrary) {
  for (const Function& function : kFunctions) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      if (!is_inlined(function, dtype)) continue;
      const std::string code =
          compiler_for(DeviceType::cpu)
              .emit(kernel_of(function.name, dtype).request(host_cpu_target()), EmitKind::assembly);
      EXPECT_THAT(code, ::testing::Not(::testing::HasSubstr(function.name))) << name(dtype);
    }
  }
}

}  // namespace
}  // namespace kiln::test
