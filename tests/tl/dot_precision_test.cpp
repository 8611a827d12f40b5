// How exact products of tl::dot are.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/device_info.hpp"
#include "tests/tl/dot_products.hpp"

namespace kiln::test {
namespace {

class DotPrecision : public DotTest {
 protected:
  double worst_error(const DotTypes& types, int order_b, std::int64_t k, std::int64_t inner, std::int64_t offset,
                     const std::function<double()>& draw_one, const std::function<double(double)>& read);
};

/// The worst error of products of 64 x `inner` and `inner` x 64 numbers, in units of the sum of the products'
/// magnitudes, where operands are `read` as these numbers. `offset` elements before them, and as many behind each line.
double DotPrecision::worst_error(const DotTypes& types, int order_b, std::int64_t k, std::int64_t inner,
                                 std::int64_t offset, const std::function<double()>& draw_one,
                                 const std::function<double(double)>& read) {
  constexpr std::int64_t kM = 64, kN = 64;
  const auto random_numbers = [&](std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = draw_one();
    return values;
  };
  const std::int64_t a_stride = inner + offset, b_stride = (order_b == 0 ? kN : inner) + offset;
  const auto a = random_numbers(offset + kM * a_stride);
  const auto b = random_numbers(offset + std::max(inner, kN) * std::max(b_stride, kN));
  const DType sums = sum_type(types.a);
  std::vector<Tensor> tensors{tensor_of_numbers(types.a, a), tensor_of_numbers(types.b, b),
                              tensor_of_numbers(sums, std::vector<double>(kM * kN, 77))};
  const DotBlocks blocks{kM, kN, k, 3, 4};
  TextKernel made = dot_kernel("matmul", matmul_arguments(types, blocks, 0, order_b), blocks.num_warps);
  made.shared_bytes = shared_bytes(types, blocks);
  made.run(GetParam(), {1, 1, 1}, tensors, {kM, kN, inner, offset, a_stride, offset, b_stride, 0, kN});
  const std::vector<double> out = numbers_of(tensors[2]);
  double worst = 0;
  for (std::int64_t row = 0; row < kM; ++row)
    for (std::int64_t column = 0; column < kN; ++column) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < inner; ++i) {
        const double product = read(a[static_cast<std::size_t>(offset) + place(0, a_stride, row, i)]) *
                               read(b[static_cast<std::size_t>(offset) + place(order_b, b_stride, i, column)]);
        sum += product;
        magnitude += std::abs(product);
      }
      worst = std::max(worst, std::abs(out[place(0, kN, row, column)] - sum) / magnitude);
    }
  return worst;
}

TEST_P(DotPrecision, ErrorsAreThoseOfThePrecision) {
  std::normal_distribution<double> normal;
  const auto same = [](double value) { return value; };
  EXPECT_LT(worst_error(
                {DType::f32, DType::f32}, 0, 32, 500, 0,
                [&] { return static_cast<double>(static_cast<float>(normal(random_))); }, same),
            0x1p-23 * 4);
  EXPECT_LT(worst_error({DType::f64, DType::f64}, 0, 32, 500, 0, [&] { return normal(random_); }, same), 0x1p-52 * 4);
}

/// A float with 11 bits: the nearest, or without the others.
double in_tf32(double value, bool is_cut) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (!is_cut) bits += 0xfff + (bits >> 13 & 1);
  return static_cast<double>(std::bit_cast<float>(bits & ~0x1fffu));
}

/// Errors of nothing but float's sums, once operands are rounded as documented: wgmma itself would cut off what the
/// copy engine and the way through registers round.
TEST_P(DotPrecision, Tf32OperandsAreRounded) {
  const bool is_cuda = GetParam().is_cuda();
  const bool has_wgmma = is_cuda && device_info(GetParam()).target.arch == "sm_90a";
  std::normal_distribution<double> normal;
  for (const int order_b : {0, 1})
    for (const std::int64_t offset : {0, 1})
      for (const std::int64_t k : {16, 32}) {
        SCOPED_TRACE(::testing::Message() << "b in order " << order_b << ", " << offset << " elements off, K by " << k);
        const auto read = [&](double value) { return is_cuda ? in_tf32(value, has_wgmma && offset != 0) : value; };
        // b across K is turned on its way, and rounded, wherever it lies: only a is cut.
        if (has_wgmma && offset != 0 && order_b == 0) continue;
        EXPECT_LT(worst_error(
                      {DType::f32, DType::f32, true}, order_b, k, 500, offset,
                      [&] { return static_cast<double>(static_cast<float>(normal(random_))); }, read),
                  0x1p-18);
      }
}

/// Sums of 4096 numbers between 1 and 4: in the tensor cores of sm_90a they have 14 bits.
TEST_P(DotPrecision, SumsOfFp8AreAsPreciseAsAsked) {
  const auto draw_one = [&] { return 1 + static_cast<double>(random_() % 8) / 8; };
  const auto same = [](double value) { return value; };
  for (const std::int64_t most : {32, 128})
    EXPECT_LT(worst_error({DType::fp8e4m3, DType::fp8e4m3, false, false, most}, 1, 128, 4096, 0, draw_one, same),
              0x1p-6);
  RecordProperty("all_imprecise",
                 std::to_string(worst_error({DType::fp8e4m3, DType::fp8e4m3}, 1, 128, 4096, 0, draw_one, same)));
}

INSTANTIATE_TEST_SUITE_P(Devices, DotPrecision, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DotPrecision);

}  // namespace
}  // namespace kiln::test
