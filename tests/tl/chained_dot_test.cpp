#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "compiler/tl/cuda/pipeline_places.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/tile_test.hpp"

// Products whose sums are read, reduced, and become operands of other products: what attention consists of.

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>
namespace chained_dot_kernels {

template <int M, int N, typename T>
KILN_DEVICE auto rows_of(T* data, int64_t first, int64_t stride) {
  return data + ((tl::expand_dims<1>(tl::arange<M>()) + first) * stride + tl::expand_dims<0>(tl::arange<N>()));
}

// Q: the queries are a value (0), a deferred load (1) or a value (2) as dot_operand, or are loaded in each step (3).
// P: the probabilities are computed for their dot (0), have a name (1), or come from outside of the sums' layout (2).
// For each block of keys: x = q @ k^T; largest = max(largest, rows of x); total += rows of x; acc = acc / 2 + x @ v.
// Products of float are tf32's.
template <typename T, int M, int D, int N, int NUM_STAGES, int Q, int P>
KILN_KERNEL void chain(const T* q, const T* k, const T* v, float* out, float* row_max, float* row_sum, int64_t keys) {
  constexpr auto kTf32 = tl::DotPrecision::tf32;
  const auto load_queries = [&] { return tl::load(rows_of<M, D>(q, 0, D)); };
  const auto queries = [&] {
    if constexpr (Q == 1)
      return tl::dot_operand([&] { return tl::deferred_load(rows_of<M, D>(q, 0, D)); });
    else if constexpr (Q == 2)
      return tl::dot_operand(load_queries);
    else
      return load_queries();
  }();
  auto acc = tl::dot_accumulator<T, M, D, kTf32>();
  auto largest = tl::full<float, M>(-INFINITY);
  auto total = tl::zeros<float, M>();
  const auto keep = [&](const auto& x) {
    largest = tl::maximum(largest, tl::max<1>(x));
    total = total + tl::sum<1>(x);
  };
  tl::pipeline<NUM_STAGES>(
      (keys + N - 1) / N,
      [&](int64_t step) {
        const auto mask = tl::expand_dims<1>(tl::arange<N>()) + step * N < keys;
        return tl::Tuple{tl::deferred_load(tl::trans(rows_of<N, D>(k, step * N, D)), tl::trans(mask)),
                         tl::deferred_load(rows_of<N, D>(v, step * N, D), mask)};
      },
      [&](const auto& k_tile, const auto& v_tile) {
        const auto x = [&] {
          if constexpr (Q == 3)
            return tl::dot<kTf32>(load_queries(), k_tile);
          else
            return tl::dot<kTf32>(queries, k_tile);
        }();
        keep(x);
        if constexpr (P == 0) {
          acc = tl::dot<kTf32>(tl::cast<T>(x), v_tile, acc * 0.5f);
        } else if constexpr (P == 1) {
          const auto p = tl::cast<T>(x);
          acc = tl::dot<kTf32>(p, v_tile, acc * 0.5f);
        } else {
          tl::Tile<T, tl::Shape<M, N>> p;
          p = tl::cast<T>(x);
          acc = tl::dot<kTf32>(p, v_tile, acc * 0.5f);
        }
      });
  tl::store(rows_of<M, D>(out, 0, D), acc);
  tl::store(row_max + tl::arange<M>(), largest);
  tl::store(row_sum + tl::arange<M>(), total);
}

// The same with keys that are values too, one tile for both products, and the last step's keys as they are transposed.
template <typename T, int M, int D, int N, int NUM_STAGES>
KILN_KERNEL void chain_of_one(const T* q, const T* k, float* out, T* turned, int64_t keys) {
  const auto queries = tl::dot_operand([&] { return tl::deferred_load(rows_of<M, D>(q, 0, D)); });
  auto acc = tl::dot_accumulator<T, M, D>();
  int64_t left = keys;
  tl::pipeline<NUM_STAGES>(
      (keys + N - 1) / N,
      [&](int64_t step) {
        return tl::deferred_load(rows_of<N, D>(k, step * N, D), tl::expand_dims<1>(tl::arange<N>()) + step * N < keys);
      },
      [&](const auto& tile) {
        acc = tl::dot(tl::cast<T>(tl::dot(queries, tl::trans(tile))), tile, acc * 0.5f);
        left -= N;
        if (left <= 0) tl::store(rows_of<D, N>(turned, 0, N), tl::trans(tile));
      });
  tl::store(rows_of<M, D>(out, 0, D), acc);
}

// One accumulator is the start of two products, of which one is begun in every other step; a plain tile of zeros is
// another's start.
template <typename T, int M, int N, int K, int NUM_STAGES>
KILN_KERNEL void branches(const T* a, const T* b, float* sums, float* starts_again, float* plain, int64_t steps) {
  auto acc = tl::dot_accumulator<T, M, N>();
  auto odd = tl::dot_accumulator<T, M, N>();
  auto other = tl::zeros<float, M, N>();
  int64_t step_number = 0;
  tl::pipeline<NUM_STAGES>(
      steps,
      [&](int64_t step) {
        return tl::Tuple{tl::deferred_load(rows_of<M, K>(a + step * K, 0, steps * K)),
                         tl::deferred_load(rows_of<K, N>(b, step * K, N))};
      },
      [&](const auto& x, const auto& y) {
        if (step_number++ % 2 == 1) {
          const auto before = acc;
          acc = tl::dot(x, y, before);
          odd = tl::dot(x, y, before);
          other = tl::dot(x, y, other);
        }
      });
  tl::store(rows_of<M, N>(sums, 0, N), acc);
  tl::store(rows_of<M, N>(starts_again, 0, N), odd);
  tl::store(rows_of<M, N>(plain, 0, N), other);
}

// Rows of a product's sums reduced, and x = a @ b less its rows' maxima where the column is below `columns`.
template <typename T, int M, int N, int K, bool TF32, typename Sum>
KILN_KERNEL void rows(const T* a, const T* b, Sum* least, Sum* largest, Sum* total, Sum* less, int64_t columns) {
  constexpr tl::DotPrecision kPrecision = TF32 ? tl::DotPrecision::tf32 : tl::DotPrecision::ieee;
  const auto x = tl::dot<kPrecision>(tl::load(rows_of<M, K>(a, 0, K)), tl::load(rows_of<K, N>(b, 0, N)));
  const auto most = tl::max<1>(x);
  tl::store(least + tl::arange<M>(), tl::min<1>(x));
  tl::store(largest + tl::arange<M>(), most);
  tl::store(total + tl::arange<M>(), tl::sum<1>(x));
  const auto is_below = tl::expand_dims<0>(tl::arange<N>()) < columns;
  tl::store(rows_of<M, N>(less, 0, N), tl::where(is_below, x - tl::expand_dims<1>(most), Sum{9}));
}

// Sums times a factor for each row, which a product goes on from.
template <typename T, int M, int N, int K>
KILN_KERNEL void scaled_rows(const T* a, const T* b, const float* factors, float* out) {
  const auto x = tl::load(rows_of<M, K>(a, 0, K));
  const auto y = tl::load(rows_of<K, N>(b, 0, N));
  auto acc = tl::dot_accumulator<T, M, N>();
  const auto factor = tl::sum<1>(acc) + tl::load(factors + tl::arange<M>());  // lies as the sums' rows do
  for (int step = 0; step < 3; ++step) acc = tl::dot(x, y, acc * tl::expand_dims<1>(factor));
  tl::store(rows_of<M, N>(out, 0, N), acc);
}

}  // namespace chained_dot_kernels
)";

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments, int num_warps) {
  TextKernel made{"tests/tl/chained_dot_kernels.hpp", kKernels, "chained_dot_kernels::" + name, std::move(arguments)};
  made.num_warps = num_warps;
  return made;
}

class ChainedDot : public TileTest {
 protected:
  /// Sums of what is made of these are exact in types of 16 bits and more; in fp8 where one in four is not zero.
  std::vector<double> draw(std::int64_t count, bool is_sparse = false) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) {
      value = static_cast<double>(random_() % 3) - 1;
      if (is_sparse && random_() % 8 < 5) value = 0;
    }
    return values;
  }
};

double row_by_row(const std::vector<double>& a, const std::vector<double>& b, std::int64_t row_a, std::int64_t row_b,
                  std::int64_t length) {
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i)
    sum += a[static_cast<std::size_t>(row_a * length + i)] * b[static_cast<std::size_t>(row_b * length + i)];
  return sum;
}

TEST_P(ChainedDot, SumsAreReducedAndBecomeOperands) {
  struct Case {
    std::int64_t m, d, n, stages, q, p;
    int num_warps;
  };
  // wgmma takes blocks of 64 rows and warps by fours; of mma's, a warp has whole rows of both products (16 rows with
  // one warp, or keys by 16), of the first, or of neither.
  int place = 0;  // every third case in the types that go by way of shared memory: each is a compile of a second
  for (const Case& c : {Case{64, 64, 64, 3, 1, 0, 4}, {128, 64, 64, 2, 1, 0, 8}, {128, 32, 128, 3, 2, 1, 8},
                        {64, 64, 32, 3, 0, 0, 4},     {128, 64, 64, 4, 3, 1, 8}, {64, 128, 128, 2, 1, 2, 8},
                        {64, 64, 64, 1, 1, 1, 4},     {256, 64, 64, 3, 1, 0, 8}, {128, 128, 128, 2, 2, 0, 8},
                        {128, 64, 64, 3, 0, 2, 4},    {32, 64, 32, 2, 1, 0, 4},  {64, 32, 64, 3, 2, 1, 2},
                        {16, 128, 16, 4, 1, 0, 1},    {16, 64, 128, 2, 1, 0, 1}, {32, 64, 64, 2, 1, 1, 1},
                        {64, 32, 32, 3, 0, 0, 1},     {16, 128, 16, 3, 1, 0, 2}, {16, 128, 16, 4, 1, 0, 4},
                        {16, 128, 16, 2, 1, 1, 8},    {16, 128, 64, 3, 1, 0, 4}, {32, 16, 16, 3, 1, 0, 2},
                        {64, 16, 16, 2, 1, 0, 2},     {32, 128, 16, 2, 2, 0, 4}, {16, 64, 32, 2, 1, 2, 1}}) {
    ++place;
    for (const DType dtype : {DType::bf16, DType::f16, DType::fp8e4m3, DType::f32}) {
      if (dtype != DType::bf16 && place % 3 != 0) continue;
      if (itemsize_bytes(dtype) == 1 && std::min(c.d, c.n) < 32) continue;      // which are summed over
      if (dtype == DType::f32 && c.m * std::max(c.d, c.n) > 64 * 64) continue;  // values lie in 48 KiB
      const bool is_sparse = dtype == DType::fp8e4m3;
      const std::int64_t keys = 5 * c.n - 3;
      SCOPED_TRACE(::testing::Message() << name(dtype) << ", " << c.m << " queries of " << c.d << ", keys by " << c.n
                                        << ", " << c.stages << " stages, q " << c.q << ", p " << c.p << ", "
                                        << c.num_warps << " warps");
      const auto q = draw(c.m * c.d, is_sparse), k = draw(keys * c.d, is_sparse), v = draw(keys * c.d, is_sparse);
      std::vector<double> acc(static_cast<std::size_t>(c.m * c.d)), largest(static_cast<std::size_t>(c.m), -1e9),
          total(static_cast<std::size_t>(c.m));
      for (std::int64_t first = 0; first < keys; first += c.n)
        for (std::int64_t row = 0; row < c.m; ++row) {
          double* const sums = &acc[static_cast<std::size_t>(row * c.d)];
          for (std::int64_t i = 0; i < c.d; ++i) sums[i] /= 2;
          for (std::int64_t key = first; key < first + c.n; ++key) {
            const double x = key < keys ? row_by_row(q, k, row, key, c.d) : 0;  // keys beyond the end are zeros
            largest[static_cast<std::size_t>(row)] = std::max(largest[static_cast<std::size_t>(row)], x);
            total[static_cast<std::size_t>(row)] += x;
            for (std::int64_t i = 0; key < keys && i < c.d; ++i)
              sums[i] += x * v[static_cast<std::size_t>(key * c.d + i)];
          }
        }
      const auto poison = [](std::int64_t count) { return std::vector<double>(static_cast<std::size_t>(count), 77); };
      std::vector<Tensor> tensors{tensor_of_numbers(dtype, q),
                                  tensor_of_numbers(dtype, k),
                                  tensor_of_numbers(dtype, v),
                                  tensor_of_numbers(DType::f32, poison(c.m * c.d)),
                                  tensor_of_numbers(DType::f32, poison(c.m)),
                                  tensor_of_numbers(DType::f32, poison(c.m))};
      TextKernel made = kernel("chain", {dtype, c.m, c.d, c.n, c.stages, c.q, c.p}, c.num_warps);
      const int tile =
          tl::shared_tile_bytes(static_cast<int>(c.n), static_cast<int>(c.d), static_cast<int>(itemsize_bytes(dtype)));
      made.shared_bytes = tl::pipeline_shared_bytes(static_cast<int>(c.stages), tile, tile);
      made.run(GetParam(), {1, 1, 1}, tensors, {keys});
      ASSERT_EQ(numbers_of(tensors[3]), acc);
      ASSERT_EQ(numbers_of(tensors[4]), largest);
      ASSERT_EQ(numbers_of(tensors[5]), total);
    }
  }
}

TEST_P(ChainedDot, SumsAreScaledRowByRow) {
  struct Case {
    std::int64_t m, n;
    int num_warps;
  };
  constexpr std::int64_t kK = 32, kRowsOfWarp = 16;
  // A lane has 64 sums of the first two, which factors of 1 leave alone; 128; fewer; and there is no wgmma.
  for (const Case& c : {Case{64, 128, 4}, {128, 128, 8}, {64, 256, 4}, {64, 64, 4}, {64, 128, 8}, {16, 64, 2}}) {
    SCOPED_TRACE(::testing::Message() << c.m << "x" << c.n << ", " << c.num_warps << " warps");
    const auto a = draw(c.m * kK), b = draw(kK * c.n);
    // All of a warp's are 1, or all but one, or none.
    std::vector<double> factors(static_cast<std::size_t>(c.m), 1);
    for (std::int64_t row = 0; row < c.m; ++row) {
      const std::int64_t warp = row / kRowsOfWarp % 4;
      if ((warp == 1 && row % kRowsOfWarp == 11) || warp == 2) factors[static_cast<std::size_t>(row)] = 2;
      if (warp == 3 && row % kRowsOfWarp == 0) factors[static_cast<std::size_t>(row)] = 0;
    }
    std::vector<double> expected(static_cast<std::size_t>(c.m * c.n));
    for (std::int64_t row = 0; row < c.m; ++row)
      for (std::int64_t column = 0; column < c.n; ++column) {
        double product = 0;
        for (std::int64_t i = 0; i < kK; ++i)
          product += a[static_cast<std::size_t>(row * kK + i)] * b[static_cast<std::size_t>(i * c.n + column)];
        const double factor = factors[static_cast<std::size_t>(row)];
        expected[static_cast<std::size_t>(row * c.n + column)] = product * (1 + factor + factor * factor);
      }
    std::vector<Tensor> tensors{tensor_of_numbers(DType::bf16, a), tensor_of_numbers(DType::bf16, b),
                                tensor_of_numbers(DType::f32, factors),
                                tensor_of_numbers(DType::f32, std::vector<double>(expected.size(), 77))};
    kernel("scaled_rows", {DType::bf16, c.m, c.n, kK}, c.num_warps).run(GetParam(), {1, 1, 1}, tensors, {});
    ASSERT_EQ(numbers_of(tensors[3]), expected);
  }
}

TEST_P(ChainedDot, OneTileIsKeysAndValues) {
  struct Case {
    std::int64_t m, d, n, stages;
    int num_warps;
  };
  // Warpgroups share columns, or rows, or there is no wgmma.
  for (const Case& c : {Case{64, 128, 64, 2, 8},
                        {64, 256, 64, 2, 8},
                        {64, 64, 64, 3, 4},
                        {128, 64, 32, 3, 8},
                        {16, 128, 64, 2, 4},
                        {32, 64, 32, 1, 2}})
    for (const DType dtype : {DType::bf16, DType::f32}) {
      if (dtype == DType::f32 && c.m * c.d > 64 * 64) continue;
      SCOPED_TRACE(::testing::Message() << name(dtype) << ", " << c.m << " queries of " << c.d << ", keys by " << c.n
                                        << ", " << c.stages << " stages, " << c.num_warps << " warps");
      const std::int64_t keys = 4 * c.n - 5;
      const auto q = draw(c.m * c.d), k = draw(keys * c.d);
      std::vector<double> acc(static_cast<std::size_t>(c.m * c.d)), turned(static_cast<std::size_t>(c.d * c.n));
      for (std::int64_t key = 0; key < 4 * c.n; ++key) {
        if (key % c.n == 0)
          for (double& sum : acc) sum /= 2;
        for (std::int64_t row = 0; key < keys && row < c.m; ++row) {
          const double x = row_by_row(q, k, row, key, c.d);
          for (std::int64_t i = 0; i < c.d; ++i)
            acc[static_cast<std::size_t>(row * c.d + i)] += x * k[static_cast<std::size_t>(key * c.d + i)];
        }
        for (std::int64_t i = 0; key >= 3 * c.n && key < keys && i < c.d; ++i)
          turned[static_cast<std::size_t>(i * c.n + key % c.n)] = k[static_cast<std::size_t>(key * c.d + i)];
      }
      std::vector<Tensor> tensors{tensor_of_numbers(dtype, q), tensor_of_numbers(dtype, k),
                                  tensor_of_numbers(DType::f32, std::vector<double>(acc.size(), 77)),
                                  tensor_of_numbers(dtype, std::vector<double>(turned.size(), 77))};
      TextKernel made = kernel("chain_of_one", {dtype, c.m, c.d, c.n, c.stages}, c.num_warps);
      made.shared_bytes = tl::pipeline_shared_bytes(
          static_cast<int>(c.stages),
          tl::shared_tile_bytes(static_cast<int>(c.n), static_cast<int>(c.d), static_cast<int>(itemsize_bytes(dtype))));
      made.run(GetParam(), {1, 1, 1}, tensors, {keys});
      ASSERT_EQ(numbers_of(tensors[2]), acc);
      ASSERT_EQ(numbers_of(tensors[3]), turned);
    }
}

TEST_P(ChainedDot, RowsOfSumsAreReducedWhereTheyLie) {
  struct Operands {
    DType dtype, sum;
    bool tf32 = false;
  };
  struct Block {
    std::int64_t m, n;
    int num_warps;
  };
  // Of the warps each has rows of its own, or columns, or both, or what another has too; the first three are all
  // types'.
  const Block blocks[] = {{64, 32, 4}, {16, 64, 2},  {32, 16, 8}, {16, 16, 4}, {16, 128, 4},
                          {32, 32, 1}, {32, 128, 2}, {64, 16, 4}, {64, 128, 8}};
  constexpr std::int64_t kK = 32, kMissing = 5;
  for (const Operands& of : {Operands{DType::f16, DType::f32},
                             {DType::bf16, DType::f32},
                             {DType::f32, DType::f32},
                             {DType::f32, DType::f32, true},
                             {DType::f64, DType::f64},
                             {DType::i8, DType::i32},
                             {DType::u8, DType::i32},
                             {DType::fp8e4m3, DType::f32},
                             {DType::fp8e5m2, DType::f32}})
    for (const auto& [m, n, num_warps] :
         std::span(blocks).first(of.dtype == DType::bf16 || of.dtype == DType::i8 ? std::size(blocks) : 3)) {
      SCOPED_TRACE(::testing::Message() << name(of.dtype) << (of.tf32 ? " tf32" : "") << ", " << m << "x" << n << ", "
                                        << num_warps << " warps");
      auto a = draw(m * kK), b = draw(kK * n);
      if (of.dtype == DType::u8)
        for (auto* values : {&a, &b})
          for (double& value : *values) ++value;
      const auto count = static_cast<std::size_t>(m);
      std::vector<double> least(count, 1e9), largest(count, -1e9), total(count),
          less(static_cast<std::size_t>(m * n), 9);
      for (std::size_t row = 0; row < count; ++row) {
        std::vector<double> x(static_cast<std::size_t>(n));
        for (std::size_t column = 0; column < x.size(); ++column) {
          for (std::size_t i = 0; i < kK; ++i) x[column] += a[row * kK + i] * b[i * x.size() + column];
          least[row] = std::min(least[row], x[column]);
          largest[row] = std::max(largest[row], x[column]);
          total[row] += x[column];
        }
        for (std::size_t column = 0; column + kMissing < x.size(); ++column)
          less[row * x.size() + column] = x[column] - largest[row];
      }
      std::vector<Tensor> tensors{tensor_of_numbers(of.dtype, a), tensor_of_numbers(of.dtype, b)};
      for (const std::int64_t size : {m, m, m, m * n})
        tensors.push_back(tensor_of_numbers(of.sum, std::vector<double>(static_cast<std::size_t>(size), 77)));
      kernel("rows", {of.dtype, m, n, kK, of.tf32, of.sum}, num_warps)
          .run(GetParam(), {1, 1, 1}, tensors, {n - kMissing});
      ASSERT_EQ(numbers_of(tensors[2]), least);
      ASSERT_EQ(numbers_of(tensors[3]), largest);
      ASSERT_EQ(numbers_of(tensors[4]), total);
      ASSERT_EQ(numbers_of(tensors[5]), less);
    }
}

TEST_P(ChainedDot, SumsThatAreUsedTwiceAndStepsWithoutProducts) {
  for (const auto& [stages, num_warps] : {std::pair<std::int64_t, int>{3, 4}, {2, 8}, {4, 8}, {1, 4}, {3, 2}}) {
    constexpr std::int64_t kN = 64, kK = 32;
    const std::int64_t m = 16 * num_warps;
    for (const std::int64_t steps : {0, 1, 2, 9}) {
      SCOPED_TRACE(::testing::Message() << stages << " stages, " << num_warps << " warps, " << steps << " steps");
      const auto a = draw(m * kK * steps + 1), b = draw(kK * steps * kN + 1);
      std::vector<double> sums(static_cast<std::size_t>(m * kN));
      for (std::int64_t step = 1; step < steps; step += 2)
        for (std::int64_t row = 0; row < m; ++row)
          for (std::int64_t column = 0; column < kN; ++column)
            for (std::int64_t i = step * kK; i < (step + 1) * kK; ++i)
              sums[static_cast<std::size_t>(row * kN + column)] +=
                  a[static_cast<std::size_t>(row * kK * steps + i)] * b[static_cast<std::size_t>(i * kN + column)];
      std::vector<Tensor> tensors{tensor_of_numbers(DType::bf16, a), tensor_of_numbers(DType::bf16, b)};
      for (int i = 0; i < 3; ++i)
        tensors.push_back(tensor_of_numbers(DType::f32, std::vector<double>(static_cast<std::size_t>(m * kN), 77)));
      TextKernel made = kernel("branches", {DType::bf16, m, kN, kK, stages}, num_warps);
      made.shared_bytes =
          tl::pipeline_shared_bytes(static_cast<int>(stages), tl::shared_tile_bytes(static_cast<int>(m), kK, 2),
                                    tl::shared_tile_bytes(kK, kN, 2));
      made.run(GetParam(), {1, 1, 1}, tensors, {steps});
      for (int i = 2; i < 5; ++i) ASSERT_EQ(numbers_of(tensors[static_cast<std::size_t>(i)]), sums) << "tensor " << i;
    }
  }
}

TEST(ChainedDotOnGpus, RunOnInTheBackground) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  struct Case {
    DType dtype;
    std::int64_t m, d, n, stages, q, p;
    int num_warps;
  };
  for (const Case& c : {Case{DType::bf16, 128, 128, 128, 2, 1, 0, 8},
                        {DType::bf16, 128, 64, 64, 3, 1, 0, 8},
                        {DType::bf16, 64, 64, 128, 3, 1, 1, 4},
                        {DType::bf16, 128, 256, 64, 2, 1, 0, 8},
                        {DType::fp8e4m3, 128, 128, 128, 3, 1, 0, 8},
                        {DType::fp8e4m3, 64, 64, 128, 4, 1, 0, 4},
                        {DType::f32, 64, 64, 64, 3, 1, 0, 4}}) {
    SCOPED_TRACE(::testing::Message() << name(c.dtype) << " " << c.m << "x" << c.d << "x" << c.n << ", " << c.num_warps
                                      << " warps");
    const PtxasReport report =
        expect_no_spills(kernel("chain", {c.dtype, c.m, c.d, c.n, c.stages, c.q, c.p}, c.num_warps)
                             .request(parse_cuda_target("sm_90a")));
    EXPECT_THAT(report.ptx, testing::HasSubstr("wgmma.mma_async"));
    EXPECT_THAT(report.ptx, testing::Not(testing::HasSubstr("mma.sync")));
    EXPECT_FALSE(report.serializes_products);
    const auto bytes_of = [&](std::int64_t rows) {
      return tl::shared_tile_bytes(static_cast<int>(rows), static_cast<int>(c.d),
                                   static_cast<int>(itemsize_bytes(c.dtype)));
    };
    const int queries = bytes_of(c.m);
    EXPECT_EQ(report.dynamic_shared_bytes,
              tl::pipeline_shared_bytes(static_cast<int>(c.stages), bytes_of(c.n), bytes_of(c.n)) +
                  (queries > 48 * 1024 ? queries : 0));
  }
}

// Columns of 64 rows' sums are shared by two warpgroups, which exchange rows' numbers and nothing else.
TEST(ChainedDotOnGpus, WarpgroupsShareRows) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const PtxasReport report = expect_no_spills(
      kernel("chain_of_one", {DType::bf16, std::int64_t{64}, std::int64_t{256}, std::int64_t{64}, std::int64_t{2}}, 8)
          .request(parse_cuda_target("sm_90a")));
  EXPECT_THAT(report.ptx, testing::HasSubstr("wgmma.mma_async"));
  EXPECT_THAT(report.ptx, testing::Not(testing::HasSubstr("mma.sync")));
  EXPECT_FALSE(report.serializes_products);
  EXPECT_EQ(report.dynamic_shared_bytes, tl::pipeline_shared_bytes(2, tl::shared_tile_bytes(64, 256, 2)));
}

TEST(ChainedDotOnGpus, ManySumsAskWhetherFactorsAreOne) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const std::string vote = "vote.sync.any";
  for (const std::int64_t columns : {64, 128, 256}) {
    SCOPED_TRACE(columns);
    const PtxasReport report =
        expect_no_spills(kernel("scaled_rows", {DType::bf16, std::int64_t{64}, columns, std::int64_t{32}}, 4)
                             .request(parse_cuda_target("sm_90a")));
    EXPECT_EQ(report.ptx.find(vote) != std::string::npos, columns >= 128);
    EXPECT_FALSE(report.serializes_products);
  }
}

TEST(ChainedDotOnGpus, StayInOneWarpsRegisters) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  constexpr std::int64_t kD = 128;
  for (const char* arch : {"sm_80", "sm_90a", "sm_120"})
    for (const std::int64_t keys : {16, 64}) {
      SCOPED_TRACE(::testing::Message() << arch << ", keys by " << keys);
      const PtxasReport report = expect_no_spills(
          kernel("chain", {DType::bf16, std::int64_t{16}, kD, keys, std::int64_t{2}, std::int64_t{1}, std::int64_t{0}},
                 1)
              .request(parse_cuda_target(arch)));
      EXPECT_THAT(report.ptx, testing::HasSubstr("mma.sync"));
      // The queries, and what three vectors of rows in the default layout are brought into the sums' layout by.
      EXPECT_LE(report.static_shared_bytes, tl::shared_tile_bytes(16, kD, 2) + 1024);
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, ChainedDot, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChainedDot);

}  // namespace
}  // namespace kiln::test
