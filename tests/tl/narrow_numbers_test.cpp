#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

/// What a template that is written for float asks of its type.
template <typename T>
KILN_KERNEL void numbers_kernel(const T* x, float* out) {
  constexpr T one = T(1), half(0.5f), two{2};
  static_assert(float(one) == 1.f && float(half) == 0.5f && two * half == one);
  static_assert(__is_trivially_copyable(T) && __is_standard_layout(T) && __is_trivially_constructible(T));
  static_assert(tl::is_same<decltype(one * one), T> && tl::is_same<decltype(1 - one), T> &&
                tl::is_same<decltype(one / int64_t{2}), T> && tl::is_same<decltype(-one), T>);
  static_assert(tl::is_same<decltype(one * 2.f), float> && tl::is_same<decltype(one * 2.0), double>);
  static_assert(tl::is_same<decltype(tl::bfloat16(1) * tl::float16(1)), float>);

  const auto places = tl::arange<8>();
  const auto tile = tl::load(x + places);  // 1, 2, ..., 8
  tl::store(out, T(1));
  tl::store(out + 1, T(0.5f));
  tl::store(out + 2, T(-INFINITY) < -400 || T(-INFINITY) != T(-INFINITY));  // fp8e4m3 has no infinity but NaN
  tl::store(out + 3, T(int64_t{-3}));
  tl::store(out + 4, T(tl::bfloat16(3)));
  tl::store(out + 5, tl::sum(tl::full<T, 8>(1.5f)));
  const float widened = tl::load(x + 2);
  tl::store(out + 6, widened);
  tl::store(out + 7, tl::load(x + 2) * 2);
  tl::store(out + 8, tl::max(tile) * 2 - 1);
  T sum = tl::load(x);
  sum += 2.5f;
  sum *= sum;
  sum -= 2;
  sum /= T(2);
  tl::store(out + 9, sum);  // ((1 + 2.5)^2 - 2) / 2, rounded each time
  tl::store(out + 10, tl::reduce(tile, [](auto a, auto b) { return a > b ? a : b; }));
  tl::store(out + 11, tl::reduce(tile, [](T a, T b) { return a + b; }));
  tl::store(out + 12, tl::max(tl::associative_scan<0>(tile, [](auto a, auto b) { return a * 1 + b; })));
  tl::store(out + 13, tl::max(tl::map_elementwise([](auto v) { return v * v - T(4); }, tile)));
  tl::store(out + 14, tl::sum(tl::where(tl::cast<T>(places), 1.f, 0.f)));
  tl::store(out + 15, tl::maximum(tl::load(x), 3) == 3 && -tl::load(x) == -1.f && tl::load(x) ? 7 : 5);
}
)";

class NarrowNumbers : public ::testing::TestWithParam<DType> {
 protected:
  TextKernel kernel() const { return {"narrow_numbers.hpp", kKernels, "numbers_kernel", {GetParam()}}; }
};

TEST_P(NarrowNumbers, AreNumbers) {
  for (const Device device : devices_with_compilers()) {
    SCOPED_TRACE(to_string(device));
    std::vector<Tensor> tensors{tensor_of_numbers(GetParam(), {1, 2, 3, 4, 5, 6, 7, 8}),
                                tensor_of(DType::f32, std::vector<float>(16, 77.f))};
    kernel().run(device, {1, 1, 1}, tensors);
    // Of fp8 some are rounded: those of three bits to no more than they tell, in whatever order they are added up.
    const bool is_fp8 = GetParam() == DType::fp8e4m3 || GetParam() == DType::fp8e5m2;
    const float slack = GetParam() == DType::fp8e5m2 ? 0.25f : 0;
    const float expected[] = {1, 0.5f, 1, -3, 3, 12, 3, 6, 15, is_fp8 ? 5.f : 5.125f, 8, 36, 36, 60, 7, 7};
    for (int i = 0; i < 16; ++i)
      EXPECT_NEAR(tensors[1].data_as<float>()[i], expected[i], slack * std::abs(expected[i])) << i;
  }
}

TEST_P(NarrowNumbers, AreNumbersOnGpus) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  for (const char* arch : {"sm_80", "sm_90a"})
    EXPECT_NO_THROW(compiler_for(DeviceType::cuda).compile(kernel().request(parse_cuda_target(arch)))) << arch;
}

INSTANTIATE_TEST_SUITE_P(DTypes, NarrowNumbers,
                         ::testing::Values(DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace kiln::test
