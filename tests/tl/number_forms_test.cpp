#include <gtest/gtest.h>

#include <cstdint>
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

/// Functions of tiles, of numbers.
template <typename T>
KILN_KERNEL void numbers_kernel(const T* x, T* out, int64_t n) {
  static_assert(tl::is_same<decltype(tl::maximum(n, 3)), int64_t>);
  static_assert(tl::is_same<decltype(tl::maximum(tl::float16(2), 3)), tl::float16>);
  tl::store(out, tl::maximum(n, 3));
  tl::store(out + 1, tl::minimum(2.5f, 3));
  tl::store(out + 2, tl::pow(2.f, 3));
  tl::store(out + 3, tl::abs(-3) + tl::abs(-0.5f));
  tl::store(out + 4, tl::clamp(n, 1, 5));
  tl::store(out + 5, tl::where(n > 3, 2.5f, 1));
  tl::store(out + 6, tl::fma(2.f, 3.f, 1.f));
  tl::store(out + 7, tl::sigmoid(0.f) + tl::div_rn(1.f, 4) + tl::exp(tl::float16(0)));
  tl::store(out + 8, tl::map_elementwise([](auto a, auto b) { return a + b; }, 1, 2));
  tl::store(out + 9, tl::isnan(NAN) && !tl::isinf(2.f) && tl::isinf(-INFINITY));
  // Where one condition holds for all, or for one number.
  const auto places = tl::arange<8>();
  const auto tile = tl::load(x + places);
  tl::store(out + 16 + places, tl::where(n > 3, tile, 1));
  tl::store(out + 24 + places, tl::where(n < 3, tile, -places));
  tl::store(out + 10, tl::load(x + 5, n < 3));
  tl::store(out + 11, tl::load(x + 5, n < 3, 7));
  tl::store(out + 12, tl::load(x + 5, n > 3));
  tl::store(out + 13, 1.f, n < 3);
  // Elements of another tile where the mask is false.
  tl::store(out + 32 + places, tl::load(x + places, places < 4, tile * 10));
  tl::store(out + 40 + places, tl::load(x + places, tile > 4, -places));
  // What a program's other threads stored.
  tl::debug_barrier();
  tl::store(out + 48 + places, tl::load(out + 23 + (-places)));
}
)";

TextKernel numbers_kernel() {
  return {"number_forms.hpp", kKernels, "numbers_kernel", {DType::f32}};
}

TEST(NumberForms, AreWhatTilesGive) {
  for (const Device device : devices_with_compilers()) {
    SCOPED_TRACE(to_string(device));
    std::vector<Tensor> tensors{make_f32({0, 1, 2, 3, 4, 5, 6, 7}),
                                tensor_of(DType::f32, std::vector<float>(56, 77.f))};
    numbers_kernel().run(device, {1, 1, 1}, tensors, {9});
    const float* out = tensors[1].data_as<float>();
    const float expected[] = {9, 2.5f, 8, 3.5f, 5, 2.5f, 7, 1.75f, 3, 1, 0, 7, 5, 77};
    for (int i = 0; i < 14; ++i) EXPECT_FLOAT_EQ(out[i], expected[i]) << i;
    for (int i = 0; i < 8; ++i) {
      const auto x = static_cast<float>(i);
      EXPECT_EQ(out[16 + i], x);
      EXPECT_EQ(out[24 + i], -x);
      EXPECT_EQ(out[32 + i], i < 4 ? x : 10 * x);
      EXPECT_EQ(out[40 + i], i > 4 ? x : -x);
      EXPECT_EQ(out[48 + i], 7 - x);
    }
  }
}

TEST(NumberForms, CompileForGpus) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const CompileRequest request = numbers_kernel().request(parse_cuda_target("sm_90a"));
  EXPECT_NE(compiler_for(DeviceType::cuda).emit(request, EmitKind::ptx).find("bar.sync"), std::string::npos);
}

}  // namespace
}  // namespace kiln::test
