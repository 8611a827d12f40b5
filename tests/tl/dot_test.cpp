#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "tests/tl/dot_products.hpp"

namespace kiln::test {
namespace {

class Dot : public DotTest {};

TEST_P(Dot, ProductsOfBf16) {
  expect_products({DType::bf16, DType::bf16}, kAllOrders, 0);
}
TEST_P(Dot, ProductsOfF16) {
  expect_products({DType::f16, DType::f16}, {{0, 1}, {1, 1}, {2, 2}}, 4);
}
TEST_P(Dot, ProductsOfF32) {
  expect_products({DType::f32, DType::f32}, kAllOrders, 1);
}
TEST_P(Dot, ProductsOfF32InNamedLines) {
  expect_products({DType::f32, DType::f32, false, true}, {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 2}}, 0);
}
TEST_P(Dot, ProductsOfTf32) {
  expect_products({DType::f32, DType::f32, true}, kAllOrders, 5);
}
TEST_P(Dot, ProductsOfF64) {
  expect_products({DType::f64, DType::f64}, kAllOrders, 2);
}
TEST_P(Dot, ProductsOfI8) {
  expect_products({DType::i8, DType::i8}, kAllOrders, 6);
}
TEST_P(Dot, ProductsOfU8) {
  expect_products({DType::u8, DType::u8}, {{0, 1}}, 0);
  expect_products({DType::i8, DType::u8}, {{1, 0}, {2, 2}}, 3);
}
TEST_P(Dot, ProductsOfFp8) {
  expect_products({DType::fp8e4m3, DType::fp8e4m3}, kAllOrders, 3);
}
TEST_P(Dot, ProductsOfMixedFp8) {
  expect_products({DType::fp8e5m2, DType::fp8e4m3}, {{0, 1}}, 0);
  expect_products({DType::fp8e4m3, DType::fp8e5m2}, {{1, 0}}, 1);
  expect_products({DType::fp8e5m2, DType::fp8e5m2}, {{0, 0}}, 2);
}

TEST_P(Dot, OfValuesInRegisters) {
  struct Case {
    DType dtype;
    bool tf32 = false;
  };
  const std::int64_t shapes[][3] = {{32, 64, 32}, {64, 16, 64}, {16, 128, 32}, {64, 64, 16}};
  const std::int64_t wgmma_shapes[][4] = {{64, 64, 32, 4}, {128, 32, 64, 8}, {64, 128, 32, 8}, {128, 64, 32, 4}};
  for (const Case& c : {Case{DType::bf16},
                        {DType::f32},
                        {DType::f64},
                        {DType::i8},
                        {DType::fp8e5m2},
                        {DType::fp8e4m3},
                        {DType::u8},
                        {DType::f32, true}}) {
    const auto expect = [&](std::int64_t m, std::int64_t n, std::int64_t k, int num_warps) {
      SCOPED_TRACE(::testing::Message() << name(c.dtype) << (c.tf32 ? " tf32 " : " ") << m << "x" << n << "x" << k
                                        << ", num_warps " << num_warps);
      const auto a = draw(c.dtype, m * k), b = draw(c.dtype, k * n);
      std::vector<double> expected(static_cast<std::size_t>(m * n), 77);
      std::vector<Tensor> tensors{tensor_of_numbers(c.dtype, a), tensor_of_numbers(c.dtype, b),
                                  tensor_of_numbers(sum_type(c.dtype), expected)};
      dot_kernel("matmul_of_values", {c.dtype, m, n, k, c.tf32}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
      for (std::int64_t row = 0; row < m; ++row)
        for (std::int64_t column = 0; column < n; ++column) {
          double sum = 0;
          for (std::int64_t i = 0; i < k; ++i) sum += 2 * a[place(0, k, row, i)] * b[place(0, n, i, column)];
          expected[place(0, n, row, column)] = sum;
        }
      ASSERT_EQ(numbers_of(tensors[2]), expected);
    };
    for (const auto& [m, n, k] : shapes)
      for (const int num_warps : some_warps(static_cast<int>(m * n)))
        if (itemsize_bytes(c.dtype) > 1 || k >= 32) expect(m, n, k, num_warps);
    if (GetParam().is_cuda() && c.dtype != DType::f64)
      for (const auto& [m, n, k, num_warps] : wgmma_shapes)
        if (itemsize_bytes(c.dtype) * (m + n) * k <= 16 * 1024)  // each form of b has a place of its own
          expect(m, n, k, static_cast<int>(num_warps));
  }
}

TEST_P(Dot, TheSumsAreATileAsAnyOther) {
  struct Case {
    DType operands, out;
    std::int64_t m, n, k, rows, columns, offset, padding;
    int num_warps;
  };
  const Case cases[] = {
      {DType::bf16, DType::bf16, 64, 64, 16, 64, 64, 0, 0, 4}, {DType::bf16, DType::bf16, 32, 64, 32, 31, 50, 8, 6, 2},
      {DType::f16, DType::f32, 64, 16, 16, 63, 13, 1, 2, 1},   {DType::f32, DType::bf16, 64, 64, 16, 60, 61, 4, 3, 8},
      {DType::f32, DType::f32, 32, 32, 16, 32, 32, 0, 4, 1},   {DType::bf16, DType::f64, 32, 32, 16, 30, 32, 0, 0, 4},
      {DType::f16, DType::i8, 64, 64, 16, 64, 63, 0, 1, 4}};
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << name(c.operands) << " to " << name(c.out) << " " << c.rows << "x" << c.columns
                                      << ", num_warps " << c.num_warps);
    const auto a = draw(c.operands, c.m * c.k), b = draw(c.operands, c.k * c.n);
    const auto whole_numbers = [&](std::int64_t count) {
      std::vector<double> values(static_cast<std::size_t>(count));
      for (double& value : values) value = static_cast<double>(random_() % 9) - 4;
      return values;
    };
    const auto bias = whole_numbers(c.columns), row_bias = whole_numbers(c.rows),
               added = whole_numbers(c.rows * c.columns);
    const std::int64_t stride = c.columns + c.padding;
    std::vector<double> expected(static_cast<std::size_t>(c.offset + c.rows * stride + 8), 77);
    std::vector<double> transposed(static_cast<std::size_t>(c.rows * c.columns), 77);
    std::vector<Tensor> tensors{tensor_of_numbers(c.operands, a),     tensor_of_numbers(c.operands, b),
                                tensor_of_numbers(DType::f32, bias),  tensor_of_numbers(c.operands, row_bias),
                                tensor_of_numbers(c.operands, added), tensor_of_numbers(c.out, expected),
                                tensor_of_numbers(c.out, transposed)};
    dot_kernel("epilogue", {c.operands, c.out, c.m, c.n, c.k}, c.num_warps)
        .run(GetParam(), {1, 1, 1}, tensors, {c.rows, c.columns, c.offset, stride});
    for (std::int64_t row = 0; row < c.rows; ++row)
      for (std::int64_t column = 0; column < c.columns; ++column) {
        double sum = bias[static_cast<std::size_t>(column)] + row_bias[static_cast<std::size_t>(row)] +
                     added[place(0, c.columns, row, column)];
        for (std::int64_t i = 0; i < c.k; ++i) sum += 2 * a[place(0, c.k, row, i)] * b[place(0, c.n, i, column)];
        double value = (row + column) % 2 == 0 ? std::max(sum, 0.) : -1;
        if (c.out == DType::i8) value = std::trunc(value);
        expected[static_cast<std::size_t>(c.offset) + place(0, stride, row, column)] = value;
        transposed[place(1, c.rows, row, column)] = value;
      }
    ASSERT_EQ(numbers_of(tensors[5]), expected);
    ASSERT_EQ(numbers_of(tensors[6]), transposed);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Dot, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Dot);

TEST(DotOnGpus, CompilesWithoutLocalMemory) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  struct Case {
    const char* arch;
    DotTypes types;
    std::int64_t extent;
    int order_a, order_b;
    int num_warps;
  };
  for (const Case& c : {Case{"sm_80", {DType::bf16, DType::bf16}, 128, 0, 1, 4},
                        {"sm_90a", {DType::f16, DType::f16}, 128, 1, 0, 4},
                        {"sm_90a", {DType::f32, DType::f32}, 128, 0, 0, 4},
                        {"sm_90a", {DType::f32, DType::f32, false, true}, 128, 0, 1, 4},
                        {"sm_80", {DType::f32, DType::f32, true}, 128, 0, 1, 8},
                        {"sm_100a", {DType::f32, DType::f32, true}, 128, 1, 1, 8},
                        {"sm_80", {DType::f64, DType::f64}, 64, 0, 1, 4},
                        {"sm_89", {DType::i8, DType::u8}, 128, 1, 1, 4},
                        {"sm_80", {DType::fp8e5m2, DType::fp8e4m3}, 128, 0, 0, 8},
                        {"sm_89", {DType::fp8e4m3, DType::fp8e4m3, false, false, 32}, 128, 1, 0, 8},
                        {"sm_100a", {DType::fp8e4m3, DType::fp8e5m2}, 64, 0, 1, 8},
                        {"sm_120a", {DType::fp8e5m2, DType::fp8e5m2}, 128, 0, 1, 8}}) {
    SCOPED_TRACE(::testing::Message() << name(c.types.a) << (c.types.tf32 ? " tf32" : "") << " for " << c.arch);
    const DotBlocks blocks{c.extent, c.extent, 32, 3, c.num_warps};
    const PtxasReport report =
        ptxas_report(dot_kernel("matmul", matmul_arguments(c.types, blocks, c.order_a, c.order_b), c.num_warps)
                         .request(parse_cuda_target(c.arch)));
    EXPECT_EQ(report.stack_bytes, 0);
    EXPECT_EQ(report.spill_store_bytes, 0);
  }
}

}  // namespace
}  // namespace kiln::test
