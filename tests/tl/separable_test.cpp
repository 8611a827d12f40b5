#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

// What gives the number of line i: the place itself, the place wrapped round, a table in memory, or a page table
// (kPage lines to a page).
constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>
namespace separable_kernels {

constexpr int kPlain = 0, kWrapped = 1, kLooked = 2, kPaged = 3;
constexpr int kPage = 4;

template <int FORM, int N>
KILN_DEVICE auto lines(int64_t first, const int32_t* table, int64_t bound) {
  const auto places = first + tl::arange<N>();
  if constexpr (FORM == kPlain)
    return places;
  else if constexpr (FORM == kWrapped)
    return places % bound;
  else if constexpr (FORM == kLooked)
    return tl::load(table + places);
  else
    return tl::load(table + places / kPage) * kPage + places % kPage;
}

template <typename T, int M, int N, int K, int NUM_STAGES, int ROWS, int INNER, int COLUMNS, bool B_IS_TURNED>
KILN_KERNEL void matmul(const T* a, const T* b, tl::dot_sum_t<T>* out, const int32_t* row_table,
                        const int32_t* inner_table, const int32_t* column_table, int64_t m, int64_t n, int64_t k,
                        int64_t a_rows, int64_t a_stride, int64_t b_columns, int64_t b_stride) {
  const int64_t row = tl::program_id(1) * M, column = tl::program_id(0) * N;
  const auto rows = tl::expand_dims<1>(lines<ROWS, M>(row, row_table, a_rows));
  const auto columns = tl::expand_dims<0>(lines<COLUMNS, N>(column, column_table, b_columns));
  auto acc = tl::dot_accumulator<T, M, N>();
  tl::pipeline<NUM_STAGES>(
      (k + K - 1) / K,
      [&](int64_t step) {
        const auto a_inner = step * K + tl::expand_dims<0>(tl::arange<K>());
        const auto b_inner = step * K + tl::expand_dims<1>(tl::arange<K>());
        const auto b_rows = tl::expand_dims<1>(lines<INNER, K>(step * K, inner_table, k));
        if constexpr (B_IS_TURNED)
          return tl::Tuple{tl::deferred_load(a + rows * a_stride + a_inner, a_inner < k),
                           tl::deferred_load(b + (columns * b_stride + b_rows), b_inner < k)};
        else
          return tl::Tuple{tl::deferred_load(a + rows * a_stride + a_inner, a_inner < k),
                           tl::deferred_load(b + b_rows * b_stride + columns, b_inner < k)};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  const auto i = row + tl::expand_dims<1>(tl::arange<M>());
  const auto j = column + tl::expand_dims<0>(tl::arange<N>());
  tl::store(out + (i * n + j), acc, (i < m) & (j < n));
}

// out[to(i), j] = a[from(i), from(j)], or with the axes of both changed.
template <typename T, int M, int N, int ROWS, int COLUMNS, int TO, bool HAS_VALUE_MASK, bool IS_TURNED>
KILN_KERNEL void move(const T* a, T* out, const int32_t* row_table, const int32_t* column_table,
                      const int32_t* to_table, int64_t m, int64_t n, int64_t a_rows, int64_t a_columns,
                      int64_t a_stride, int64_t out_stride) {
  const int64_t row = tl::program_id(1) * M, column = tl::program_id(0) * N;
  const auto i = row + tl::expand_dims<1>(tl::arange<M>());
  const auto j = column + tl::expand_dims<0>(tl::arange<N>());
  const auto from = a + (tl::expand_dims<1>(lines<ROWS, M>(row, row_table, a_rows)) * a_stride +
                         tl::expand_dims<0>(lines<COLUMNS, N>(column, column_table, a_columns)));
  const auto to = out + (tl::expand_dims<1>(lines<TO, M>(row, to_table, m)) * out_stride + j);
  const auto run = [&](const auto& mask) {
    if constexpr (IS_TURNED)
      tl::store(tl::trans(to), tl::load(tl::trans(from), tl::trans(mask), 3), tl::trans(mask));
    else
      tl::store(to, tl::load(from, mask, 3), mask);
  };
  if constexpr (HAS_VALUE_MASK)
    run(((i < m) & (j < n)) & (tl::cast<int32_t>(i + j) % 3 != 1));
  else
    run((i < m) & (j < n));
}

// Arithmetic of separable indices and other tiles is that of their values.
template <int M, int N>
KILN_KERNEL void values(const int32_t* table, int64_t* out, int64_t bound, int64_t factor) {
  const auto i = tl::expand_dims<1>(tl::arange<M>());
  const auto wrapped = (i - 3) % bound;
  const auto j = tl::expand_dims<0>(tl::arange<N>());
  const auto looked = tl::expand_dims<1>(tl::load(table + tl::arange<M>()));
  const auto sum = (j + looked * factor - 7) * 3 - j + wrapped;
  tl::store(out + (i * N + j), sum);
  tl::store(out + M * N + (i * N + j), tl::where(sum % 2 == 0, wrapped * 5 - (looked + j), sum * sum));
  tl::store(out + 2 * M * N + (i * N + j), tl::broadcast_to<M, N>(wrapped + (j + 2) % 5) + looked / 2);
  tl::atomic_add(out + (3 * M * N + wrapped * N + j), tl::full<int64_t, M, N>(1000), wrapped >= 0);
}

}  // namespace separable_kernels
)";
enum Form : std::int64_t { kPlain, kWrapped, kLooked, kPaged };
constexpr std::int64_t kPage = 4;

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments, int num_warps) {
  TextKernel made{"tests/tl/separable_kernels.hpp", kKernels, "separable_kernels::" + name, std::move(arguments)};
  made.num_warps = num_warps;
  return made;
}

class Separable : public TileTest {
 protected:
  std::vector<double> draw(std::int64_t count, std::int64_t bound) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = static_cast<double>(random_() % static_cast<std::uint64_t>(bound));
    return values;
  }
  /// Numbers that all types here have.
  std::vector<double> draw_elements(std::int64_t count) {
    auto values = draw(count, 9);
    for (double& value : values) value -= 4;
    return values;
  }
};

/// One axis of a problem: `count` places of lines below `bound`, the table with room for places that masks leave out.
struct Axis {
  std::int64_t form;
  std::int64_t bound;
  std::vector<double> table;

  std::int64_t line(std::int64_t i) const {
    return form == kPlain     ? i
           : form == kWrapped ? i % bound
           : form == kLooked
               ? static_cast<std::int64_t>(table[static_cast<std::size_t>(i)])
               : static_cast<std::int64_t>(table[static_cast<std::size_t>(i / kPage)]) * kPage + i % kPage;
  }
};

std::size_t at(std::int64_t row, std::int64_t stride, std::int64_t column) {
  return static_cast<std::size_t>(row * stride + column);
}

TEST_P(Separable, ProductsOfLinesThatAreLookedUp) {
  struct Case {
    DType dtype;
    std::int64_t m, n, k, stages, rows, inner, columns;
    bool b_is_turned;
    int num_warps;
  };
  const Case cases[] = {{DType::bf16, 64, 64, 64, 3, kWrapped, kPlain, kWrapped, false, 4},
                        {DType::bf16, 128, 64, 64, 4, kLooked, kPlain, kPlain, false, 4},
                        {DType::f16, 64, 128, 64, 2, kPlain, kPaged, kPlain, false, 8},
                        {DType::bf16, 64, 64, 32, 3, kLooked, kPaged, kLooked, false, 4},
                        {DType::bf16, 64, 64, 64, 4, kPlain, kPlain, kLooked, true, 4},
                        {DType::f32, 32, 32, 32, 3, kWrapped, kPaged, kPlain, false, 4},
                        {DType::i8, 32, 64, 64, 2, kLooked, kPlain, kWrapped, true, 2},
                        {DType::f16, 16, 16, 32, 1, kPaged, kLooked, kWrapped, false, 1},
                        {DType::bf16, 64, 64, 144, 2, kLooked, kPlain, kWrapped, true, 4}};
  const bool takes_any_extent = !GetParam().is_cuda() || device_info(GetParam()).target.arch == "sm_90a";
  for (const Case& c : cases) {
    if (!takes_any_extent && c.k == 144) continue;
    const auto made =
        kernel("matmul", {c.dtype, c.m, c.n, c.k, c.stages, c.rows, c.inner, c.columns, c.b_is_turned}, c.num_warps);
    const auto loaded = made.load(GetParam());
    struct Problem {
      std::int64_t m, n, k, a_rows, b_columns, padding;
    };
    // Of whole tiles that wrap nowhere, of ones that wrap within, several times, and at odd places.
    for (const Problem& p :
         {Problem{c.m, c.n, 3 * c.k, c.m, c.n, 0}, Problem{2 * c.m, c.n + 8, 5 * c.k - 8, 96, 72, 16},
          Problem{c.m + 3, 2 * c.n - 5, 77, 11, 9, 8}, Problem{c.m, c.n, 40, 24, 2 * c.n, 3},
          Problem{c.m, c.n, 0, c.m, c.n, 8}}) {
      SCOPED_TRACE(::testing::Message() << name(c.dtype) << " " << c.m << "x" << c.n << "x" << c.k << ", forms "
                                        << c.rows << c.inner << c.columns << ", problem " << p.m << "x" << p.n << "x"
                                        << p.k << " of " << p.a_rows << " rows, " << p.b_columns << " columns");
      const std::int64_t inner_room = (p.k + c.k - 1) / c.k * c.k;
      const auto axis = [&](std::int64_t form, std::int64_t places, std::int64_t bound) {
        const std::int64_t room = form == kPlain ? std::max(places, bound) : bound;
        return Axis{form, room, draw(places, form == kPaged ? (bound + kPage - 1) / kPage : bound)};
      };
      const Axis rows = axis(c.rows, p.m + c.m, p.a_rows), inner = axis(c.inner, inner_room, p.k),
                 columns = axis(c.columns, p.n + c.n, p.b_columns);
      const std::int64_t a_stride = inner_room + p.padding;
      const std::int64_t b_lines = c.b_is_turned ? columns.bound : inner_room;
      const std::int64_t b_stride = (c.b_is_turned ? inner_room : columns.bound) + p.padding;
      const auto a = draw_elements((rows.bound + kPage) * a_stride), b = draw_elements((b_lines + kPage) * b_stride);
      std::vector<double> expected(static_cast<std::size_t>(p.m * p.n), 77);
      const DType sums = c.dtype == DType::i8 ? DType::i32 : DType::f32;
      std::vector<Tensor> tensors{tensor_of_numbers(c.dtype, a),
                                  tensor_of_numbers(c.dtype, b),
                                  tensor_of_numbers(sums, expected),
                                  tensor_of_numbers(DType::i32, rows.table),
                                  tensor_of_numbers(DType::i32, inner.table),
                                  tensor_of_numbers(DType::i32, columns.table)};
      made.run(loaded, GetParam(), {(p.n + c.n - 1) / c.n, (p.m + c.m - 1) / c.m, 1}, tensors,
               {p.m, p.n, p.k, rows.bound, a_stride, columns.bound, b_stride});
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < p.k; ++k) {
            const std::int64_t row = inner.line(k), column = columns.line(j);
            sum += a[at(rows.line(i), a_stride, k)] *
                   b[c.b_is_turned ? at(column, b_stride, row) : at(row, b_stride, column)];
          }
          expected[at(i, p.n, j)] = sum;
        }
      ASSERT_EQ(numbers_of(tensors[2]), expected);
    }
  }
}

TEST_P(Separable, LoadsAndStores) {
  struct Case {
    DType dtype;
    std::int64_t m, n, rows, columns, to;
    bool has_value_mask, is_turned;
    int num_warps;
  };
  const Case cases[] = {{DType::bf16, 16, 64, kLooked, kPlain, kPlain, false, false, 2},
                        {DType::f16, 32, 32, kPaged, kPlain, kLooked, false, false, 4},
                        {DType::f32, 8, 128, kWrapped, kWrapped, kPlain, false, false, 1},
                        {DType::i8, 64, 64, kLooked, kWrapped, kLooked, true, false, 4},
                        {DType::f64, 16, 16, kLooked, kLooked, kPlain, true, false, 8},
                        {DType::bf16, 32, 64, kWrapped, kPlain, kLooked, true, true, 4},
                        {DType::f32, 16, 32, kPlain, kLooked, kPlain, false, true, 2}};
  for (const Case& c : cases) {
    const auto made =
        kernel("move", {c.dtype, c.m, c.n, c.rows, c.columns, c.to, c.has_value_mask, c.is_turned}, c.num_warps);
    const auto loaded = made.load(GetParam());
    struct Problem {
      std::int64_t m, n, a_rows, a_columns, padding;
    };
    for (const Problem& p : {Problem{c.m, c.n, 3 * c.m, c.n, 0}, Problem{2 * c.m - 3, 2 * c.n, 24, c.n + 16, 16},
                             Problem{c.m + 5, c.n - 3, 7, 5, 1}}) {
      SCOPED_TRACE(::testing::Message() << name(c.dtype) << " " << c.m << "x" << c.n << ", forms " << c.rows
                                        << c.columns << c.to << ", problem " << p.m << "x" << p.n << " of " << p.a_rows
                                        << " rows, " << p.a_columns << " columns");
      const auto axis = [&](std::int64_t form, std::int64_t places, std::int64_t bound) {
        const std::int64_t room = form == kPlain ? std::max(places, bound) : bound;
        return Axis{form, room, draw(places, form == kPaged ? (bound + kPage - 1) / kPage : bound)};
      };
      const Axis rows = axis(c.rows, p.m + c.m, p.a_rows), columns = axis(c.columns, p.n + c.n, p.a_columns);
      Axis to{c.to, p.m, {}};  // each row once
      for (std::int64_t i = 0; i < p.m + c.m; ++i) to.table.push_back(static_cast<double>(i < p.m ? p.m - 1 - i : 0));
      const std::int64_t a_stride = columns.bound + p.padding, out_stride = p.n + p.padding;
      const auto a = draw_elements((rows.bound + kPage) * a_stride);
      std::vector<double> expected(static_cast<std::size_t>(p.m * out_stride + 16), 77);
      std::vector<Tensor> tensors{tensor_of_numbers(c.dtype, a), tensor_of_numbers(c.dtype, expected),
                                  tensor_of_numbers(DType::i32, rows.table),
                                  tensor_of_numbers(DType::i32, columns.table),
                                  tensor_of_numbers(DType::i32, to.table)};
      made.run(loaded, GetParam(), {(p.n + c.n - 1) / c.n, (p.m + c.m - 1) / c.m, 1}, tensors,
               {p.m, p.n, rows.bound, columns.bound, a_stride, out_stride});
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j)
          if (!c.has_value_mask || (i + j) % 3 != 1)
            expected[at(to.line(i), out_stride, j)] = a[at(rows.line(i), a_stride, columns.line(j))];
      ASSERT_EQ(numbers_of(tensors[1]), expected);
    }
  }
}

TEST_P(Separable, ArithmeticIsThatOfValues) {
  constexpr std::int64_t kM = 32, kN = 16, kFactor = 3;
  const auto table = draw(kM, 100);
  for (const std::int64_t bound : {5, 40}) {
    std::vector<double> expected(static_cast<std::size_t>(4 * kM * kN), 0);
    std::vector<Tensor> tensors{tensor_of_numbers(DType::i32, table), tensor_of_numbers(DType::i64, expected)};
    kernel("values", {kM, kN}, some_warps(kM * kN)[0]).run(GetParam(), {1, 1, 1}, tensors, {bound, kFactor});
    for (std::int64_t i = 0; i < kM; ++i)
      for (std::int64_t j = 0; j < kN; ++j) {
        const auto looked = static_cast<std::int64_t>(table[static_cast<std::size_t>(i)]);
        const std::int64_t wrapped = (i - 3) % bound, sum = (j + looked * kFactor - 7) * 3 - j + wrapped;
        expected[at(i, kN, j)] = static_cast<double>(sum);
        expected[at(kM + i, kN, j)] = static_cast<double>(sum % 2 == 0 ? wrapped * 5 - (looked + j) : sum * sum);
        expected[at(2 * kM + i, kN, j)] = static_cast<double>(wrapped + (j + 2) % 5 + looked / 2);
        if (wrapped >= 0) expected[at(3 * kM + wrapped, kN, j)] += 1000;
      }
    ASSERT_EQ(numbers_of(tensors[1]), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Separable, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Separable);

}  // namespace
}  // namespace kiln::test
