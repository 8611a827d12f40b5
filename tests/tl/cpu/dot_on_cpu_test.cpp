#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "tests/support/matchers.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

// The left half of out's rows is a @ b^T: rows of `length` elements each, K of them at a time.
constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

template <typename T, int M, int N, int K>
KILN_KERNEL void product(const T* a, const T* b, tl::dot_sum_t<T>* out, int64_t length) {
  auto acc = tl::dot_accumulator<T, M, N>();
  const auto k_of_a = tl::expand_dims<0>(tl::arange<K>());
  const auto k_of_b = tl::expand_dims<1>(tl::arange<K>());
  const auto row = tl::expand_dims<1>(tl::arange<M>());
  const auto column = tl::expand_dims<0>(tl::arange<N>());
  tl::pipeline<2>(
      length / K,
      [&](int64_t step) {
        return tl::Tuple{tl::deferred_load(a + (row * length + k_of_a + step * K)),
                         tl::deferred_load(b + (column * length + k_of_b + step * K))};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  tl::store(out + (row * (2 * N) + column), acc);
}
)";

TextKernel product(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {"tests/tl/dot_on_cpu_kernels.hpp", kKernels, "product", {dtype, m, n, k}};
}

std::string emit(const TextKernel& kernel, const std::string& features, EmitKind kind) {
  Target target = host_cpu_target();
  target.features = features;
  return compiler_for(DeviceType::cpu).emit(kernel.request(target), kind);
}

/// 128 x 64 floats are 32 KiB: a copy of the accumulator would show.
TEST(DotOnCpu, AddsToTheAccumulatorInPlace) {
  const std::string ir = emit(product(DType::f32, 128, 64, 32), host_cpu_target().features, EmitKind::llvm_ir);
  EXPECT_THAT(ir, HasSubstr("memset"));
  for (std::size_t call = ir.find("@llvm.memcpy"); call != std::string::npos; call = ir.find("@llvm.memcpy", call + 1))
    EXPECT_THAT(ir.substr(call, ir.find('\n', call) - call), Not(HasSubstr("i64 32768")));
}

TEST(DotOnCpu, MultipliesInTheWidestRegistersThereAre) {
  const TextKernel kernel = product(DType::f32, 64, 64, 32);
  const std::string wide = emit(kernel, "+avx,+avx2,+fma,+avx512f,+avx512vl,+avx512bw,+avx512dq", EmitKind::assembly);
  EXPECT_THAT(wide, ::testing::ContainsRegex("vfmadd[0-9]+ps\t%zmm"));
  const std::string narrow = emit(kernel, "+avx,+avx2,+fma", EmitKind::assembly);
  EXPECT_THAT(narrow, ::testing::ContainsRegex("vfmadd[0-9]+ps\t%ymm"));
  EXPECT_THAT(narrow, Not(HasSubstr("zmm")));
}

/// The largest products there are, and single ones that are not like them: sums far beyond what float counts to, in
/// one step and in several.
TEST(DotOnCpu, LongSumsOfBytesAreExact) {
  constexpr std::int64_t kLength = 4096;
  const auto check = [&](DType dtype, auto largest) {
    using T = decltype(largest);
    std::vector<T> a(16 * kLength, largest), b(16 * kLength, largest);
    for (std::size_t row = 0; row < 16; ++row)
      a[row * kLength + row * 100] = b[row * kLength + 1] = static_cast<T>(row + 1);
    std::vector<Tensor> tensors{tensor_of(dtype, a), tensor_of(dtype, b),
                                tensor_of(DType::i32, std::vector<std::int32_t>(512, 77))};
    product(dtype, 16, 16, 2048).run(Device::cpu(), {1, 1, 1}, tensors, {kLength});
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t j = 0; j < 16; ++j) {
        std::int64_t expected = 0;
        for (std::size_t l = 0; l < kLength; ++l) expected += std::int64_t{a[i * kLength + l]} * b[j * kLength + l];
        ASSERT_GT(expected, std::int64_t{1} << 24);
        ASSERT_EQ(tensors[2].data_as<std::int32_t>()[i * 32 + j], expected) << name(dtype) << " " << i << ", " << j;
      }
  };
  check(DType::i8, std::int8_t{-128});
  check(DType::u8, std::uint8_t{255});
}

}  // namespace
}  // namespace kiln::test
