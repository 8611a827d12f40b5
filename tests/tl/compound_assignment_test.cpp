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

/// Every op= of values, symbolic indices, masks and addresses; x is 0, 1, 2, ...
template <typename T>
KILN_KERNEL void assignments_kernel(const T* x, T* out, int64_t n) {
  auto places = tl::arange<8>();
  auto sum = tl::zeros<T, 8>();
  sum += tl::load(x + places);
  sum *= 2;
  sum -= 1.f;
  sum /= sum + sum;
  auto addresses = x + places;
  addresses += 8;
  addresses -= int64_t{4};
  sum += tl::load(addresses);
  auto scattered = x + tl::cast<int32_t>(tl::load(x + places));
  scattered += 2;
  sum += tl::load(scattered);
  tl::store(out + places, sum);  // 0.5 + i + 4 + i + 2
  auto bits = tl::cast<int32_t>(places);
  bits += 9;
  bits %= 7;
  bits <<= 3;
  bits |= 1;
  bits ^= 4;
  bits &= 127;
  bits >>= 1;
  places += 9;
  places -= 1;
  tl::store(out + places, bits);
  auto chosen = sum > 10.f;
  chosen &= tl::arange<8>() < n;
  tl::store(out + places + 8, chosen);
}

/// out = 2 x x + 2 row sums of x, by sums that are added to.
template <typename T, int N>
KILN_KERNEL void products_kernel(const T* x, float* out) {
  const auto places = tl::expand_dims<1>(tl::arange<N>()) * N + tl::expand_dims<0>(tl::arange<N>());
  const auto tile = tl::load(x + places);
  auto sums = tl::dot_accumulator<T, N, N>();
  sums += tl::dot(tile, tile);
  sums += tl::expand_dims<1>(tl::sum<1>(tile));
  sums *= 2;
  tl::store(out + places, sums);
}
)";

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments) {
  return {"compound_assignment.hpp", kKernels, name, std::move(arguments)};
}

TEST(CompoundAssignment, IsTheOperationAssigned) {
  std::vector<float> x(32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (const Device device : devices_with_compilers()) {
    SCOPED_TRACE(to_string(device));
    std::vector<Tensor> tensors{tensor_of(DType::f32, x), tensor_of(DType::f32, std::vector<float>(24, 77.f))};
    kernel("assignments_kernel", {DType::f32}).run(device, {1, 1, 1}, tensors, {5});
    const float* out = tensors[1].data_as<float>();
    for (int i = 0; i < 8; ++i) {
      const float sum = 6.5f + 2 * static_cast<float>(i);
      EXPECT_EQ(out[i], sum) << i;
      EXPECT_EQ(out[8 + i], ((((i + 9) % 7 << 3 | 1) ^ 4) & 127) >> 1) << i;
      EXPECT_EQ(out[16 + i], sum > 10 && i < 5) << i;
    }
  }
}

TEST(CompoundAssignment, AddsProductsToSums) {
  constexpr std::int64_t kN = 64;
  for (const Device device : devices_with_compilers()) {
    SCOPED_TRACE(to_string(device));
    std::vector<Tensor> tensors{tensor_of_numbers(DType::f16, std::vector<double>(kN * kN, 0.5)),
                                tensor_of(DType::f32, std::vector<float>(kN * kN, 77.f))};
    kernel("products_kernel", {DType::f16, kN}).run(device, {1, 1, 1}, tensors);
    for (std::int64_t i = 0; i < kN * kN; ++i) ASSERT_EQ(tensors[1].data_as<float>()[i], 2 * (16 + 32)) << i;
  }
}

TEST(CompoundAssignment, CompilesForGpus) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  for (const char* arch : {"sm_80", "sm_90a"})
    for (const TextKernel& one :
         {kernel("assignments_kernel", {DType::f32}), kernel("products_kernel", {DType::f16, std::int64_t{64}})})
      EXPECT_NO_THROW(compiler_for(DeviceType::cuda).compile(one.request(parse_cuda_target(arch)))) << arch;
}

}  // namespace
}  // namespace kiln::test
