#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/tl/cuda/pipeline_places.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/tile_test.hpp"

// Products of matrices by tl::dot and tl::pipeline, of any types, orders, blocks, sizes and alignments, beside exact
// ones.

namespace kiln::test {

inline constexpr const char* kDotKernels = R"(
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
          bool NAMES_LINES, int MAX_NUM_IMPRECISE_ACC>
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
      [&](const auto& x, const auto& y) { acc = tl::dot<kPrecision, MAX_NUM_IMPRECISE_ACC>(x, y, acc); });
  tl::store(tile_at<0, M, N>(out + out_offset, row, column, out_stride), acc, mask_of<M, N>(row, column, m, n));
}

// Of values in registers, in the layouts that they have; the second operand is the sum of two tiles.
template <typename T, int M, int N, int K, bool TF32>
KILN_KERNEL void matmul_of_values(const T* a, const T* b, tl::dot_sum_t<T>* out) {
  constexpr tl::DotPrecision kPrecision = TF32 ? tl::DotPrecision::tf32 : tl::DotPrecision::ieee;
  const auto x = tl::load(tile_at<0, M, K>(a, 0, 0, K));
  const auto y = tl::load(tile_at<0, K, N>(b, 0, 0, N));
  auto acc = tl::dot<kPrecision>(x, y, tl::dot_accumulator<T, M, N, kPrecision>());
  acc = tl::dot<kPrecision>(x, tl::trans(tl::trans(y)), acc);
  tl::store(tile_at<0, M, N>(out, 0, 0, N), acc);
}

// A product of operands that stay, one of which is in shared memory across K, plus itself, plus `start`.
template <typename T, int M, int N, int K, bool TF32, int ORDER_A, int ORDER_B>
KILN_KERNEL void matmul_of_operands(const T* a, const T* b, tl::dot_sum_t<T>* out, int64_t start) {
  constexpr tl::DotPrecision kPrecision = TF32 ? tl::DotPrecision::tf32 : tl::DotPrecision::ieee;
  const auto x = tl::dot_operand([&] { return tl::deferred_load(tile_at<ORDER_A, M, K>(a, 0, 0, ORDER_A == 0 ? K : M)); });
  const auto y = tl::dot_operand([&] { return tl::deferred_load(tile_at<ORDER_B, K, N>(b, 0, 0, ORDER_B == 0 ? N : K)); });
  auto acc = tl::dot_accumulator<T, M, N, kPrecision>() + static_cast<tl::dot_sum_t<T>>(start);
  acc = tl::dot<kPrecision>(x, y, acc);
  const auto once = tl::dot<kPrecision>(x, y);
  tl::store(tile_at<0, M, N>(out, 0, 0, N), acc + once);
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

inline TextKernel dot_kernel(const std::string& name, std::vector<TemplateArgument> arguments, int num_warps) {
  TextKernel made{"tests/tl/dot_kernels.hpp", kDotKernels, "dot_kernels::" + name, std::move(arguments)};
  made.num_warps = num_warps;
  return made;
}

inline constexpr std::int64_t kAllImprecise = 1 << 30;

/// Of a product.
struct DotTypes {
  DType a, b;
  bool tf32 = false;
  bool names_lines = false;  ///< the loads say which way tiles lie in shared memory
  std::int64_t max_num_imprecise_acc = kAllImprecise;
};
inline DType sum_type(DType dtype) {
  return dtype == DType::f64 ? dtype : dtype == DType::i8 || dtype == DType::u8 ? DType::i32 : DType::f32;
}

struct DotBlocks {
  std::int64_t m, n, k, stages;
  int num_warps;
};
inline constexpr DotBlocks kDotBlocks[] = {{64, 64, 32, 3, 4},  {16, 16, 32, 1, 1},  {128, 64, 32, 4, 8},
                                           {32, 128, 64, 2, 4}, {16, 64, 128, 2, 8}, {64, 16, 64, 3, 1},
                                           {64, 128, 32, 2, 8}, {32, 32, 64, 4, 4}};
/// Where element (row, column) of a matrix is that lies as tile_at says.
inline std::size_t place(int order, std::int64_t stride, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(order == 0   ? row * stride + column
                                  : order == 1 ? row + column * stride
                                               : row * stride + 2 * column);
}

struct DotProblem {
  std::int64_t m, n, k;
  int alignment_bytes;      ///< of the operands' lines
  std::int64_t offset = 0;  ///< of the operands' first elements, beside what that makes it
};

inline int shared_bytes(const DotTypes& types, const DotBlocks& blocks) {
  const int m = static_cast<int>(blocks.m), n = static_cast<int>(blocks.n), k = static_cast<int>(blocks.k);
  const int stages = static_cast<int>(blocks.stages), size = static_cast<int>(itemsize_bytes(types.a));
  return types.names_lines
             ? tl::pipeline_shared_bytes(stages, tl::padded_tile_bytes(k, m), tl::padded_tile_bytes(k, n))
             : tl::pipeline_shared_bytes(stages, tl::shared_tile_bytes(m, k, size), tl::shared_tile_bytes(k, n, size));
}

/// Of dot_kernel("matmul").
inline std::vector<TemplateArgument> matmul_arguments(const DotTypes& types, const DotBlocks& blocks, int order_a,
                                                      int order_b) {
  return {types.a,
          types.b,
          blocks.m,
          blocks.n,
          blocks.k,
          blocks.stages,
          types.tf32,
          std::int64_t{order_a},
          std::int64_t{order_b},
          types.names_lines,
          types.max_num_imprecise_acc};
}

inline const std::vector<std::pair<int, int>> kAllOrders{{0, 0}, {0, 1}, {1, 0}, {1, 1}};

class DotTest : public TileTest {
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
  /// Products of matrices that lie in these orders, of several sizes and alignments, in blocks of all_blocks[turn] and
  /// on.
  void expect_products(const DotTypes& types, const std::vector<std::pair<int, int>>& orders, std::size_t turn,
                       std::span<const DotBlocks> all_blocks = kDotBlocks) {
    for (const auto& [order_a, order_b] : orders) {
      if (!GetParam().is_cuda() && (turn + static_cast<std::size_t>(order_a)) % 2 == 1 && order_a != 2) {
        ++turn;  // half of them: compiling takes most of the time
        continue;
      }
      const DotBlocks& blocks = all_blocks[turn++ % all_blocks.size()];
      const std::int64_t size = itemsize_bytes(types.a);
      TextKernel made = dot_kernel("matmul", matmul_arguments(types, blocks, order_a, order_b), blocks.num_warps);
      made.shared_bytes = shared_bytes(types, blocks);
      const auto loaded = made.load(GetParam());
      const DotProblem problems[] = {{blocks.m, blocks.n, 5 * blocks.k, 16},
                                     {2 * blocks.m - 3, blocks.n + 5, 77, 16},
                                     {blocks.m + 1, blocks.n, 50, 8},
                                     {blocks.m, blocks.n + 7, 64, 4},
                                     {blocks.m - 1, blocks.n - 1, 45, 1},
                                     {33, 40, 35 * blocks.k + 8, 16, 3},
                                     {1, 1, 1, 1},
                                     {3, blocks.n, 0, 16},
                                     {blocks.m - 5, blocks.n, 4 * blocks.k + 16, 16}};
      for (const DotProblem& problem : problems) {
        SCOPED_TRACE(::testing::Message()
                     << name(types.a) << " by " << name(types.b) << (types.tf32 ? " tf32" : "")
                     << (types.names_lines ? " in named lines" : "") << ", orders " << order_a << order_b << ", blocks "
                     << blocks.m << "x" << blocks.n << "x" << blocks.k << ", " << blocks.stages << " stages, "
                     << blocks.num_warps << " warps, problem " << problem.m << "x" << problem.n << "x" << problem.k
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
                 tensors,
                 {problem.m, problem.n, problem.k, offset, a_stride, offset, b_stride, out_offset, out_stride});
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
};

}  // namespace kiln::test
