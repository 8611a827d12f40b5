#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/text_kernel.hpp"

// Weights of 4 and 8 bits that a pipeline's body makes the first operand of a dot of.

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>
namespace tl = kiln::tl;

// out [M, N] = the sum over steps of weights @ x: x [steps * KX, N] of columns that are contiguous, number [steps, M].
// Bytes are weights times a number for each row, or their halves less it: 2 * K weights, the low halves first. `last`:
// the last step's weights.
template <typename T, typename W, int M, int N, int K, bool HALVES>
KILN_KERNEL void weigh(const W* bytes, const T* x, const T* number, float* out, float* last, tl::int64_t steps) {
  constexpr int KX = HALVES ? 2 * K : K;
  const auto rows = tl::expand_dims<1>(tl::arange<M>());
  const auto columns = tl::expand_dims<0>(tl::arange<N>());
  auto acc = tl::dot_accumulator<T, M, N>();
  tl::int64_t left = steps;
  tl::pipeline<3>(
      steps,
      [&](tl::int64_t step) {
        return tl::Tuple{
            tl::deferred_load(bytes + (rows * (steps * K) + step * K + tl::expand_dims<0>(tl::arange<K>()))),
            tl::deferred_load(x + (columns * (steps * KX) + step * KX + tl::expand_dims<1>(tl::arange<KX>()))),
            tl::deferred_load(number + (step * M + rows))};
      },
      [&](const auto& byte_tile, const auto& x_tile, const auto& number_tile) {
        const auto values = tl::operand_values(byte_tile);
        const auto of_row = tl::operand_values(number_tile);
        const auto weights = [&] {
          if constexpr (HALVES)
            return tl::cast<T>(tl::cat<1>(values & 15, values >> 4)) - of_row;
          else
            return tl::cast<T>(values) * of_row;
        }();
        if (--left == 0) tl::store(last + (rows * KX + tl::expand_dims<0>(tl::arange<KX>())), tl::cast<float>(weights));
        acc = tl::dot(weights, x_tile, acc);
      });
  tl::store(out + (rows * N + columns), acc);
}
)";

struct Case {
  DType dtype, bytes;
  std::int64_t m, n, k;
  bool halves;
  std::int32_t num_warps;
};

using OperandValues = ::testing::TestWithParam<Device>;

/// Whole numbers, so that every sum is exact.
TEST_P(OperandValues, BecomeTheFirstOperandOfADot) {
  std::mt19937 random{29};
  for (const Case& c : {Case{DType::bf16, DType::u8, 64, 16, 64, true, 4},
                        {DType::f16, DType::u8, 128, 32, 64, true, 8},
                        {DType::bf16, DType::u8, 128, 16, 32, true, 4},
                        {DType::bf16, DType::u8, 64, 64, 128, false, 4},
                        {DType::bf16, DType::i8, 64, 16, 64, false, 4},
                        {DType::f16, DType::u8, 256, 16, 64, false, 8},
                        {DType::f16, DType::i8, 64, 32, 32, false, 8},  // warpgroups share rows
                        {DType::bf16, DType::i8, 32, 16, 64, false, 2},
                        {DType::f16, DType::u8, 32, 32, 64, true, 4}}) {
    SCOPED_TRACE(std::string(name(c.bytes)) + (c.halves ? " halves" : "") + " as " + std::string(name(c.dtype)) + " " +
                 std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) + " by " +
                 std::to_string(c.num_warps) + " warps");
    constexpr std::int64_t kSteps = 5;
    const std::int64_t kx = c.halves ? 2 * c.k : c.k;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(c.m * kSteps * c.k));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    const auto whole = [&](std::int64_t count, int least, int most) {
      std::vector<double> numbers(static_cast<std::size_t>(count));
      for (double& number : numbers) number = std::uniform_int_distribution<int>(least, most)(random);
      return numbers;
    };
    const std::vector<double> x = whole(c.n * kSteps * kx, -2, 2), number = whole(kSteps * c.m, 0, c.halves ? 15 : 1);
    std::vector<Tensor> tensors{tensor_of(c.bytes, bytes), tensor_of_numbers(c.dtype, x),
                                tensor_of_numbers(c.dtype, number),
                                tensor_of(DType::f32, std::vector<float>(static_cast<std::size_t>(c.m * c.n), 77)),
                                tensor_of(DType::f32, std::vector<float>(static_cast<std::size_t>(c.m * kx), 77))};
    TextKernel{"weigh.hpp", kKernels, "weigh", {c.dtype, c.bytes, c.m, c.n, c.k, c.halves}, c.num_warps}.run(
        GetParam(), {1, 1, 1}, tensors, {kSteps});

    const auto weight = [&](std::int64_t row, std::int64_t step, std::int64_t k) {
      const std::uint8_t byte = bytes[static_cast<std::size_t>(row * kSteps * c.k + step * c.k + k % c.k)];
      const double of_row = number[static_cast<std::size_t>(step * c.m + row)];
      if (c.halves) return (k < c.k ? byte & 15 : byte >> 4) - of_row;
      return (c.bytes == DType::i8 ? static_cast<std::int8_t>(byte) : static_cast<int>(byte)) * of_row;
    };
    std::vector<float> sums, last;
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t k = 0; k < kx; ++k) last.push_back(static_cast<float>(weight(row, kSteps - 1, k)));
      for (std::int64_t column = 0; column < c.n; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < kSteps * kx; ++k)
          sum += weight(row, k / kx, k % kx) * x[static_cast<std::size_t>(column * kSteps * kx + k)];
        sums.push_back(static_cast<float>(sum));
      }
    }
    const auto compare = [](const std::vector<float>& got, const std::vector<float>& expected, const char* what,
                            std::int64_t columns) {
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(got[i], expected[i]) << what << " (" << static_cast<std::int64_t>(i) / columns << ", "
                                       << static_cast<std::int64_t>(i) % columns << ")";
    };
    compare(values_of<float>(tensors[4]), last, "weight", kx);
    compare(values_of<float>(tensors[3]), sums, "sum", c.n);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OperandValues, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OperandValues);

}  // namespace
}  // namespace kiln::test
