#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "compiler/tl/cuda/pipeline_places.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>
namespace dot_kernels {

// Lines along the columns (0), along the rows (1), or neither: neighbours two elements apart (2).
template <int ORDER, int M, int N, typename T>
KILN_DEVICE auto tile_at(T* data, int64_t row, int64_t column, int64_t stride) {
  const auto i = tl::expand_dims<1>(tl::arange<M>()) + row;
  const auto j = tl::expand_dims<0>(tl::arange<N>()) + column;
  if constexpr (ORDER == 0)
    return data + (i * stride + j);
  else if constexpr (ORDER == 1)
    return data + (i + j * stride);
  else
    return data + (i * stride + j * 2);
}
template <int M, int N>
KILN_DEVICE auto mask_of(int64_t row, int64_t column, int64_t rows, int64_t columns) {
  return (tl::expand_dims<1>(tl::arange<M>()) + row < rows) & (tl::expand_dims<0>(tl::arange<N>()) + column < columns);
}

template <typename TA, typename TB, int M, int N, int K, int NUM_STAGES, bool TF32, int ORDER_A, int ORDER_B,
          bool NAMES_LINES>
KILN_KERNEL void matmul(const TA* a, const TB* b, tl::dot_sum_t<TA>* out, int64_t m, int64_t n, int64_t k,
                        int64_t a_offset, int64_t a_stride, int64_t b_offset, int64_t b_stride, int64_t out_offset,
                        int64_t out_stride) {
  constexpr tl::DotPrecision kPrecision = TF32 ? tl::DotPrecision::tf32 : tl::DotPrecision::ieee;
  constexpr tl::TileLines kLinesA = NAMES_LINES ? tl::TileLines::columns : tl::TileLines::as_in_memory;
  constexpr tl::TileLines kLinesB = NAMES_LINES ? tl::TileLines::rows : tl::TileLines::as_in_memory;
  const int64_t row = tl::program_id(1) * M, column = tl::program_id(0) * N;
  auto acc = tl::dot_accumulator<TA, M, N, kPrecision>();
  tl::pipeline<NUM_STAGES>(
      (k + K - 1) / K,
      [&](int64_t step) {
        return tl::Tuple{tl::deferred_load<kLinesA>(tile_at<ORDER_A, M, K>(a + a_offset, row, step * K, a_stride),
                                           mask_of<M, K>(row, step * K, m, k)),
                         tl::deferred_load<kLinesB>(tile_at<ORDER_B, K, N>(b + b_offset, step * K, column, b_stride),
                                           mask_of<K, N>(step * K, column, k, n))};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot<kPrecision>(x, y, acc); });
  tl::store(tile_at<0, M, N>(out + out_offset, row, column, out_stride), acc, mask_of<M, N>(row, column, m, n));
}

// Of values in registers, in the layouts that they have; the second operand is the sum of two tiles.
template <typename T, int M, int N, int K>
KILN_KERNEL void matmul_of_values(const T* a, const T* b, tl::dot_sum_t<T>* out) {
  const auto x = tl::load(tile_at<0, M, K>(a, 0, 0, K));
  const auto y = tl::load(tile_at<0, K, N>(b, 0, 0, N));
  auto acc = tl::dot(x, y, tl::dot_accumulator<T, M, N>());
  acc = tl::dot(x, tl::trans(tl::trans(y)), acc);
  tl::store(tile_at<0, M, N>(out, 0, 0, N), acc);
}

// relu(2 * a @ b + bias + row_bias + c) where row + column is even, else -1; stored as TO, and again transposed.
template <typename T, typename TO, int M, int N, int K>
KILN_KERNEL void epilogue(const T* a, const T* b, const float* bias, const T* row_bias, const T* c, TO* out,
                          TO* transposed, int64_t m, int64_t n, int64_t out_offset, int64_t out_stride) {
  auto acc = tl::dot(tl::load(tile_at<0, M, K>(a, 0, 0, K)), tl::load(tile_at<0, K, N>(b, 0, 0, N)),
                     tl::dot_accumulator<T, M, N>());
  const auto i = tl::expand_dims<1>(tl::arange<M>());
  const auto j = tl::expand_dims<0>(tl::arange<N>());
  const auto mask = (i < m) & (j < n);
  const auto result = acc * 2 + tl::load_like(acc, bias + j, j < n) + tl::load(row_bias + i, i < m) +
                      tl::load_like(acc, c + (i * n + j), mask);
  const auto even = (tl::cast<int32_t>(i + j) & 1) == 0;
  const auto chosen = tl::cast<TO>(tl::where(even, tl::maximum(result, 0), -1));
  tl::store(out + (i * out_stride + j + out_offset), chosen, mask);
  tl::store(transposed + (i + j * m), chosen, mask);
}

}  // namespace dot_kernels
)";

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments, int num_warps) {
  TextKernel made{"tests/tl/dot_kernels.hpp", kKernels, "dot_kernels::" + name, std::move(arguments)};
  made.num_warps = num_warps;
  return made;
}

struct Types {
  DType a, b;
  bool tf32 = false;
  bool names_lines = false;  ///< the loads say which way tiles lie in shared memory
};
DType sum_type(DType dtype) {
  return dtype == DType::f64 ? dtype : dtype == DType::i8 || dtype == DType::u8 ? DType::i32 : DType::f32;
}

struct Blocks {
  std::int64_t m, n, k, stages;
  int num_warps;
};
constexpr Blocks kBlocks[] = {{64, 64, 32, 3, 4},  {16, 16, 32, 1, 1}, {128, 64, 32, 4, 8}, {32, 128, 64, 2, 4},
                              {16, 64, 128, 2, 8}, {64, 16, 64, 3, 1}, {64, 128, 32, 2, 8}, {32, 32, 64, 4, 4}};
/// Of wgmma: several blocks of rows to a warpgroup, wide ones, K of half a panel's line and of several panels.
constexpr Blocks kWgmmaBlocks[] = {{128, 256, 64, 3, 8}, {256, 64, 16, 4, 8}, {64, 32, 128, 3, 4},
                                   {128, 128, 64, 1, 4}, {64, 256, 32, 2, 8}, {128, 16, 64, 5, 8}};

class Dot : public TileTest {
 protected:
  /// Numbers that all float types here have, whose products' sums are exact in float; any, of an integer type.
  std::vector<double> draw(DType dtype, std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values)
      value = dtype == DType::i8   ? static_cast<double>(random_() % 256) - 128
              : dtype == DType::u8 ? static_cast<double>(random_() % 256)
                                   : (static_cast<double>(random_() % 9) - 4) / 4;
    return values;
  }
  /// Products of matrices that lie in these orders, of several sizes and alignments, in blocks of kBlocks[turn] and on.
  void expect_products(const Types& types, const std::vector<std::pair<int, int>>& orders, std::size_t turn,
                       std::span<const Blocks> all_blocks = kBlocks);
};

/// Where element (row, column) of a matrix is that lies as tile_at says.
std::size_t place(int order, std::int64_t stride, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(order == 0   ? row * stride + column
                                  : order == 1 ? row + column * stride
                                               : row * stride + 2 * column);
}

struct Problem {
  std::int64_t m, n, k;
  int alignment_bytes;      ///< of the operands' lines
  std::int64_t offset = 0;  ///< of the operands' first elements, beside what that makes it
};

int shared_bytes(const Types& types, const Blocks& blocks) {
  const int m = static_cast<int>(blocks.m), n = static_cast<int>(blocks.n), k = static_cast<int>(blocks.k);
  const int stages = static_cast<int>(blocks.stages), size = static_cast<int>(itemsize_bytes(types.a));
  return types.names_lines
             ? tl::pipeline_shared_bytes(stages, tl::padded_tile_bytes(k, m), tl::padded_tile_bytes(k, n))
             : tl::pipeline_shared_bytes(stages, tl::shared_tile_bytes(m, k, size), tl::shared_tile_bytes(k, n, size));
}

void Dot::expect_products(const Types& types, const std::vector<std::pair<int, int>>& orders, std::size_t turn,
                          std::span<const Blocks> all_blocks) {
  for (const auto& [order_a, order_b] : orders) {
    if (!GetParam().is_cuda() && (turn + static_cast<std::size_t>(order_a)) % 2 == 1 && order_a != 2) {
      ++turn;  // half of them: compiling takes most of the time
      continue;
    }
    const Blocks& blocks = all_blocks[turn++ % all_blocks.size()];
    const std::int64_t size = itemsize_bytes(types.a);
    TextKernel made = kernel("matmul",
                             {types.a, types.b, blocks.m, blocks.n, blocks.k, blocks.stages, types.tf32,
                              std::int64_t{order_a}, std::int64_t{order_b}, types.names_lines},
                             blocks.num_warps);
    made.shared_bytes = shared_bytes(types, blocks);
    const auto loaded = made.load(GetParam());
    const Problem problems[] = {{blocks.m, blocks.n, 5 * blocks.k, 16},
                                {2 * blocks.m - 3, blocks.n + 5, 77, 16},
                                {blocks.m + 1, blocks.n, 50, 8},
                                {blocks.m, blocks.n + 7, 64, 4},
                                {blocks.m - 1, blocks.n - 1, 45, 1},
                                {33, 40, 35 * blocks.k + 8, 16, 3},
                                {1, 1, 1, 1},
                                {3, blocks.n, 0, 16}};
    for (const Problem& problem : problems) {
      SCOPED_TRACE(::testing::Message() << name(types.a) << " by " << name(types.b) << (types.tf32 ? " tf32" : "")
                                        << (types.names_lines ? " in named lines" : "") << ", orders " << order_a
                                        << order_b << ", blocks " << blocks.m << "x" << blocks.n << "x" << blocks.k
                                        << ", " << blocks.stages << " stages, " << blocks.num_warps
                                        << " warps, problem " << problem.m << "x" << problem.n << "x" << problem.k
                                        << " at " << problem.alignment_bytes << " bytes");
      const std::int64_t whole = 16 / size;
      const std::int64_t odd = std::max<std::int64_t>(problem.alignment_bytes / size, 1) % whole;
      const std::int64_t offset = odd + problem.offset;
      const auto stride_of = [&](int order, std::int64_t rows, std::int64_t columns) {
        const std::int64_t line = order == 0 ? columns : order == 1 ? rows : 2 * columns;
        return (line + whole - 1) / whole * whole + odd;
      };
      const std::int64_t a_stride = stride_of(order_a, problem.m, problem.k);
      const std::int64_t b_stride = stride_of(order_b, problem.k, problem.n);
      const std::int64_t out_stride = problem.n + (problem.alignment_bytes >= 8 ? (4 - problem.n % 4) % 4 : 1);
      const std::int64_t out_offset = problem.alignment_bytes == 16 ? 4 : 3;
      const auto a = draw(types.a, offset + a_stride * ((order_a == 1 ? problem.k : problem.m) + 1));
      const auto b = draw(types.b, offset + b_stride * ((order_b == 1 ? problem.n : problem.k) + 1));
      std::vector<double> expected(static_cast<std::size_t>(out_offset + problem.m * out_stride + 16), 77);
      std::vector<Tensor> tensors{tensor_of_numbers(types.a, a), tensor_of_numbers(types.b, b),
                                  tensor_of_numbers(sum_type(types.a), expected)};
      made.run(loaded, GetParam(), {(problem.n + blocks.n - 1) / blocks.n, (problem.m + blocks.m - 1) / blocks.m, 1},
               tensors, {problem.m, problem.n, problem.k, offset, a_stride, offset, b_stride, out_offset, out_stride});
      for (std::int64_t row = 0; row < problem.m; ++row)
        for (std::int64_t column = 0; column < problem.n; ++column) {
          double sum = 0;
          for (std::int64_t k = 0; k < problem.k; ++k)
            sum += a[static_cast<std::size_t>(offset) + place(order_a, a_stride, row, k)] *
                   b[static_cast<std::size_t>(offset) + place(order_b, b_stride, k, column)];
          expected[static_cast<std::size_t>(out_offset + row * out_stride + column)] = sum;
        }
      ASSERT_EQ(numbers_of(tensors[2]), expected);
    }
  }
}

const std::vector<std::pair<int, int>> kAllOrders{{0, 0}, {0, 1}, {1, 0}, {1, 1}};

TEST_P(Dot, ProductsOfBf16) {
  expect_products({DType::bf16, DType::bf16}, kAllOrders, 0);
}
TEST_P(Dot, ProductsOfF16) {
  expect_products({DType::f16, DType::f16}, {{0, 1}, {1, 1}, {2, 2}}, 4);
}
TEST_P(Dot, ProductsOfWarpgroups) {
  // All blocks in all orders where there is wgmma.
  for (std::size_t turn = 0; turn < 6; turn += GetParam().is_cuda() ? 1 : 3)
    expect_products({DType::bf16, DType::bf16}, kAllOrders, turn, kWgmmaBlocks);
  expect_products({DType::f16, DType::f16}, {{0, 0}, {2, 2}}, 5, kWgmmaBlocks);
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
  const std::int64_t shapes[][3] = {{32, 64, 32}, {64, 16, 64}, {16, 128, 32}, {64, 64, 16}};
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64, DType::i8, DType::fp8e5m2})
    for (const auto& [m, n, k] : shapes)
      for (const int num_warps : some_warps(static_cast<int>(m * n))) {
        if (itemsize_bytes(dtype) == 1 && k < 32) continue;
        SCOPED_TRACE(::testing::Message()
                     << name(dtype) << " " << m << "x" << n << "x" << k << ", num_warps " << num_warps);
        const auto a = draw(dtype, m * k), b = draw(dtype, k * n);
        std::vector<double> expected(static_cast<std::size_t>(m * n), 77);
        std::vector<Tensor> tensors{tensor_of_numbers(dtype, a), tensor_of_numbers(dtype, b),
                                    tensor_of_numbers(sum_type(dtype), expected)};
        kernel("matmul_of_values", {dtype, m, n, k}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
        for (std::int64_t row = 0; row < m; ++row)
          for (std::int64_t column = 0; column < n; ++column) {
            double sum = 0;
            for (std::int64_t i = 0; i < k; ++i) sum += 2 * a[place(0, k, row, i)] * b[place(0, n, i, column)];
            expected[place(0, n, row, column)] = sum;
          }
        ASSERT_EQ(numbers_of(tensors[2]), expected);
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
    kernel("epilogue", {c.operands, c.out, c.m, c.n, c.k}, c.num_warps)
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

/// Rounding: products of random numbers, in units of the sum of their magnitudes.
TEST_P(Dot, ErrorsAreThoseOfThePrecision) {
  constexpr std::int64_t kM = 64, kN = 64, kK = 32, kInner = 500;
  struct Case {
    DType dtype;
    bool tf32;
    double bound;
  };
  for (const Case& c :
       {Case{DType::f32, false, 0x1p-23 * 4}, {DType::f32, true, 0x1p-11}, {DType::f64, false, 0x1p-52 * 4}}) {
    SCOPED_TRACE(::testing::Message() << name(c.dtype) << (c.tf32 ? " tf32" : ""));
    std::normal_distribution<double> normal;
    const auto random_numbers = [&](std::int64_t count) {
      std::vector<double> values(static_cast<std::size_t>(count));
      for (double& value : values) {
        value = normal(random_);
        if (c.dtype == DType::f32) value = static_cast<double>(static_cast<float>(value));
      }
      return values;
    };
    const auto a = random_numbers(kM * kInner), b = random_numbers(kInner * kN);
    std::vector<Tensor> tensors{tensor_of_numbers(c.dtype, a), tensor_of_numbers(c.dtype, b),
                                tensor_of_numbers(c.dtype, std::vector<double>(kM * kN, 77))};
    TextKernel made = kernel(
        "matmul", {c.dtype, c.dtype, kM, kN, kK, std::int64_t{3}, c.tf32, std::int64_t{0}, std::int64_t{0}, false}, 4);
    const auto size = static_cast<int>(itemsize_bytes(c.dtype));
    made.shared_bytes =
        tl::pipeline_shared_bytes(3, tl::shared_tile_bytes(kM, kK, size), tl::shared_tile_bytes(kK, kN, size));
    made.run(GetParam(), {1, 1, 1}, tensors, {kM, kN, kInner, 0, kInner, 0, kN, 0, kN});
    const std::vector<double> out = numbers_of(tensors[2]);
    double worst = 0;
    for (std::int64_t row = 0; row < kM; ++row)
      for (std::int64_t column = 0; column < kN; ++column) {
        double sum = 0, magnitude = 0;
        for (std::int64_t i = 0; i < kInner; ++i) {
          const double product = a[place(0, kInner, row, i)] * b[place(0, kN, i, column)];
          sum += product;
          magnitude += std::abs(product);
        }
        worst = std::max(worst, std::abs(out[place(0, kN, row, column)] - sum) / magnitude);
      }
    EXPECT_LT(worst, c.bound);
    if (c.tf32 && GetParam().is_cuda()) {
      EXPECT_GT(worst, 0x1p-20) << "operands were not rounded: other instructions ran";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Dot, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Dot);

TEST(DotOnGpus, CompilesWithoutLocalMemory) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  struct Case {
    const char* arch;
    Types types;
    std::int64_t extent, order_a, order_b;
    int num_warps;
  };
  for (const Case& c : {Case{"sm_80", {DType::bf16, DType::bf16}, 128, 0, 1, 4},
                        {"sm_90a", {DType::f16, DType::f16}, 128, 1, 0, 4},
                        {"sm_90a", {DType::f32, DType::f32}, 128, 0, 0, 4},
                        {"sm_90a", {DType::f32, DType::f32, false, true}, 128, 0, 1, 4},
                        {"sm_100a", {DType::f32, DType::f32, true}, 128, 1, 1, 8},
                        {"sm_80", {DType::f64, DType::f64}, 64, 0, 1, 4},
                        {"sm_90a", {DType::i8, DType::i8}, 128, 0, 1, 4},
                        {"sm_80", {DType::fp8e5m2, DType::fp8e4m3}, 128, 0, 0, 8},
                        {"sm_90a", {DType::fp8e4m3, DType::fp8e5m2}, 128, 0, 1, 8}}) {
    SCOPED_TRACE(::testing::Message() << name(c.types.a) << (c.types.tf32 ? " tf32" : "") << " for " << c.arch);
    const PtxasReport report =
        ptxas_report(kernel("matmul",
                            {c.types.a, c.types.b, c.extent, c.extent, std::int64_t{32}, std::int64_t{3}, c.types.tf32,
                             c.order_a, c.order_b, c.types.names_lines},
                            c.num_warps)
                         .request(parse_cuda_target(c.arch)));
    EXPECT_EQ(report.stack_bytes, 0);
    EXPECT_EQ(report.spill_store_bytes, 0);
  }
}

}  // namespace
}  // namespace kiln::test
