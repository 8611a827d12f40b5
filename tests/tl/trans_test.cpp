#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "compiler/tl/cuda/transpose_places.hpp"
#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

/// out = x transposed, x of M x N elements.
template <typename T, int M, int N>
KILN_KERNEL void trans_kernel(const T* x, T* out) {
  const auto tile = tl::load(x + (tl::expand_dims<1>(tl::arange<M>()) * N + tl::expand_dims<0>(tl::arange<N>())));
  tl::store(out + (tl::expand_dims<1>(tl::arange<N>()) * M + tl::expand_dims<0>(tl::arange<M>())), tl::trans(tile));
}

/// out[j, i] = x[i, j] + 2 * sum of row i, where i < m and j < n: sums in the layout that they have, transposed.
template <typename T, int M, int N>
KILN_KERNEL void trans_symbols_kernel(const T* x, T* out, int64_t m, int64_t n) {
  const auto i = tl::expand_dims<1>(tl::arange<M>());
  const auto j = tl::expand_dims<0>(tl::arange<N>());
  const auto mask = (i < m) & (j < n);
  const auto tile = tl::load(x + (i * n + j), mask);
  const auto sums = tl::expand_dims<1>(tl::sum<1>(tile));
  tl::store(tl::trans(out + (i + j * m)), tl::trans(tile) + tl::trans(sums) + tl::trans(tl::trans(tl::trans(sums))),
            tl::trans(mask));
}

template <typename T, int M, int N, bool STRADDLING, int SEAM_BYTES>
KILN_KERNEL void copy_kernel(const T* x, T* out, int64_t x_offset, int64_t x_stride, int64_t out_offset,
                             int64_t out_stride, int64_t m, int64_t n) {
  tl::copy_transposed<M, N, STRADDLING, SEAM_BYTES>(out + out_offset, out_stride, x + x_offset, x_stride,
                                                    tl::program_id(0), tl::program_id(1), m, n);
}

template <typename T, int TILE_BYTES>
KILN_KERNEL void interleave_kernel(const T* x, T* out, int64_t x_stride, int64_t out_offset, int64_t rows,
                                   int64_t block_columns, int64_t columns) {
  const int64_t first = tl::program_id(0) * block_columns, left = columns - first;
  tl::copy_interleaved<TILE_BYTES>(out + out_offset + first * rows, x + first, x_stride, static_cast<int>(rows),
                                   static_cast<int>(block_columns),
                                   static_cast<int>(left < block_columns ? left : block_columns));
}
)";

template <typename T>
class TransOf : public ::testing::Test {
 protected:
  std::vector<T> random_values(std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) value = static_cast<T>(random_());
    return values;
  }
  std::mt19937_64 random_{std::random_device{}()};
};
using Types = ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(TransOf, Types);

TYPED_TEST(TransOf, TilesOfAllShapes) {
  using T = TypeParam;
  const std::int64_t shapes[][2] = {{1, 64},  {64, 1},  {4, 4},   {2, 8},   {16, 16},
                                    {8, 128}, {32, 64}, {64, 16}, {128, 32}};
  for (const Device device : devices_with_compilers())
    for (const auto& [m, n] : shapes)
      for (const int num_warps : {1, 4}) {
        const std::vector<T> x = this->random_values(m * n);
        std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<T>(x.size(), T(77)))};
        TextKernel{"trans.hpp", kKernels, "trans_kernel", {unsigned_dtype(sizeof(T)), m, n}, num_warps}.run(
            device, {1, 1, 1}, tensors);
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j)
            ASSERT_EQ(tensors[1].data_as<T>()[j * m + i], x[static_cast<std::size_t>(i * n + j)])
                << m << "x" << n << ", num_warps " << num_warps << " on " << to_string(device) << ": " << i << ", "
                << j;
        if (!device.is_cuda()) break;  // warps are the GPU's
      }
}

TYPED_TEST(TransOf, CopiesWithAnyAlignment) {
  using T = TypeParam;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  struct Case {
    std::int64_t m, n, x_offset, x_padding, out_offset, out_padding;
  };
  const std::vector<Case> cases = {{64, 128, 0, 0, 0, 0}, {1, 1, 3, 0, 1, 0},     {70, 3, 1, 2, 3, 1},
                                   {67, 129, 0, 0, 0, 0}, {100, 100, 0, 4, 0, 4}, {127, 65, 1, 3, 5, 16},
                                   {150, 64, 0, 1, 0, 3}, {325, 300, 3, 1, 2, 2}};
  struct Kind {
    std::int64_t seam_bytes, block;
  };
  // A narrow type's tile of 128 x 128 is more than one strip and more than four packets for each thread.
  const std::int64_t wide_block = kSize <= 2 ? 128 : 64;
  for (const Device device : devices_with_compilers())
    for (const auto& [seam_bytes, block] : {Kind{0, 64}, Kind{16, 64}, Kind{32, wide_block}})
      for (const bool straddling : {false, true}) {
        if (straddling && kSize >= 4) continue;
        if ((straddling || seam_bytes > 0) && !device.is_cuda()) continue;
        for (const Case& c : cases) {
          const std::int64_t x_stride = c.n + c.x_padding, out_stride = c.m + c.out_padding;
          const std::vector<T> x = this->random_values(c.x_offset + c.m * x_stride);
          std::vector<T> expected = this->random_values(c.out_offset + c.n * out_stride + 16);
          std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(expected)};
          for (std::int64_t i = 0; i < c.m; ++i)
            for (std::int64_t j = 0; j < c.n; ++j)
              expected[static_cast<std::size_t>(c.out_offset + j * out_stride + i)] =
                  x[static_cast<std::size_t>(c.x_offset + i * x_stride + j)];
          const std::int64_t pad = seam_bytes / kSize, step = block - pad;
          const std::int64_t row_blocks = (c.m + std::max<std::int64_t>(pad - 1, 0) + step - 1) / step;
          TextKernel{
              "copy.hpp", kKernels, "copy_kernel", {unsigned_dtype(sizeof(T)), block, block, straddling, seam_bytes}}
              .run(device, {row_blocks, (c.n + block - 1) / block, 1}, tensors,
                   {c.x_offset, x_stride, c.out_offset, out_stride, c.m, c.n});
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), tensors[1].data_as<T>()))
              << c.m << "x" << c.n << " padded " << c.x_padding << ", " << c.out_padding
              << (straddling ? ", straddling" : "") << ", seams at " << seam_bytes << " bytes on " << to_string(device);
        }
      }
}

TYPED_TEST(TransOf, InterleavesWithAnyAlignment) {
  using T = TypeParam;
  struct Case {
    std::int64_t rows, columns, block_columns, x_padding, out_offset;
  };
  for (const Device device : devices_with_compilers())
    for (const auto& [rows, columns, block_columns, x_padding, out_offset] :
         {Case{1, 1, 1, 0, 0}, Case{3, 5, 8, 2, 1}, Case{17, 300, 16, 1, 3}, Case{17, 300, 128, 0, 7},
          Case{64, 33, 16, 5, 15}, Case{9, 1000, 256, 0, 2}, Case{8, 31, 32, 1, 9}}) {
      const std::int64_t x_stride = columns + x_padding;
      const std::vector<T> x = this->random_values(rows * x_stride);
      std::vector<T> expected = this->random_values(out_offset + rows * columns + 16);
      std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(expected)};
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          expected[static_cast<std::size_t>(out_offset + j * rows + i)] = x[static_cast<std::size_t>(i * x_stride + j)];
      const std::int64_t tile_bytes = 32768;
      TextKernel{"interleave.hpp", kKernels, "interleave_kernel", {unsigned_dtype(sizeof(T)), tile_bytes}}.run(
          device, {(columns + block_columns - 1) / block_columns, 1, 1}, tensors,
          {x_stride, out_offset, rows, block_columns, columns});
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), tensors[1].data_as<T>()))
          << rows << "x" << columns << " in " << block_columns << ", from " << out_offset << " on "
          << to_string(device);
    }
}

TEST(Trans, SymbolicTilesAndValuesInOtherLayouts) {
  constexpr std::int64_t kM = 13, kN = 27;
  std::vector<std::uint32_t> x(kM * kN);
  std::mt19937 random(7);
  for (std::uint32_t& value : x) value = static_cast<std::uint32_t>(random());
  for (const Device device : devices_with_compilers()) {
    std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<std::uint32_t>(x.size() + 5, 77))};
    TextKernel{"trans.hpp", kKernels, "trans_symbols_kernel", {DType::u32, std::int64_t{16}, std::int64_t{32}}}.run(
        device, {1, 1, 1}, tensors, {kM, kN});
    const std::uint32_t* out = tensors[1].data_as<std::uint32_t>();
    for (std::size_t i = 0; i < kM; ++i) {
      std::uint32_t sum = 0;
      for (std::size_t j = 0; j < kN; ++j) sum += x[i * kN + j];
      for (std::size_t j = 0; j < kN; ++j) ASSERT_EQ(out[j * kM + i], x[i * kN + j] + 2 * sum) << i << ", " << j;
    }
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(out[kM * kN + i], 77u);
  }
}

TEST(Trans, CompilesForGpusWithoutLocalMemory) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const auto expect_registers = [](const TextKernel& kernel) {
    const PtxasReport report = ptxas_report(kernel.request(parse_cuda_target("sm_90a")));
    EXPECT_EQ(report.stack_bytes, 0);
    EXPECT_EQ(report.spill_store_bytes, 0);
  };
  for (const DType dtype : {DType::bool_, DType::bf16, DType::f32, DType::f64}) {
    SCOPED_TRACE(name(dtype));
    const std::int64_t columns = dtype == DType::f64 ? 32 : 64;
    expect_registers({"trans.hpp", kKernels, "trans_kernel", {dtype, std::int64_t{64}, columns}, 8});
    const bool narrow = itemsize_bytes(dtype) < 4;
    expect_registers({"interleave.hpp", kKernels, "interleave_kernel", {dtype, std::int64_t{16384}}, 8});
    for (const std::int64_t seam_bytes : {0, 32})
      expect_registers(
          {"copy.hpp", kKernels, "copy_kernel", {dtype, std::int64_t{64}, columns, narrow, seam_bytes}, 8});
  }
}

/// Passes over the banks that 16-byte accesses of a quarter of a warp take: they are served together, and each bank
/// hands out one word at a time.
template <typename OffsetOf>
int passes(OffsetOf offset_of) {
  int most = 0;
  std::vector<std::set<int>> words(32);
  for (int thread = 0; thread < 8; ++thread)
    for (int byte = 0; byte < 16; byte += 4) {
      const int word = (offset_of(thread) + byte) / 4;
      words[static_cast<std::size_t>(word % 32)].insert(word);
    }
  for (const auto& bank : words) most = std::max(most, static_cast<int>(bank.size()));
  return most;
}

template <int kElementBytes, int kRows, int kColumns>
void expect_no_conflicts() {
  using Places = tl::TransposePlaces<kElementBytes, kRows, kColumns>;
  SCOPED_TRACE(::testing::Message() << kElementBytes << " bytes, " << kRows << "x" << kColumns);
  std::set<int> offsets;
  for (int column = 0; column < kColumns; ++column)
    for (int row = 0; row < kRows; ++row) offsets.insert(Places::element_offset(column, row));
  EXPECT_EQ(offsets.size(), static_cast<std::size_t>(kRows * kColumns)) << "two elements share a place";
  EXPECT_EQ(*offsets.rbegin(), Places::kBytes - kElementBytes);
  for (int step = 1; step < kColumns; step *= 2)
    for (int column = 0; column < step; ++column)
      ASSERT_EQ(Places::moved(Places::chunk_offset(column, 1), step), Places::chunk_offset(column + step, 1))
          << "column " << column << " and " << step << " on";

  for (int strip = 0; strip < Places::kStrips; strip += 8)
    for (int column = 0; column < Places::kPerWord; ++column)
      ASSERT_EQ(passes([&](int thread) {
                  const int group = (strip + thread) / Places::kWordsPerRow;
                  const int word = (strip + thread) % Places::kWordsPerRow;
                  return Places::chunk_offset(word * Places::kPerWord + column, group);
                }),
                1)
          << "writing strip " << strip;
  // Windows start at any chunk of their column; others read whole columns.
  for (int column = 0; column < kColumns; ++column)
    for (int chunk = 0; chunk < Places::kChunksPerColumn; ++chunk) {
      if (chunk + 8 > Places::kChunksPerColumn && (column * Places::kChunksPerColumn + chunk) % 8 != 0) continue;
      if (column * Places::kChunksPerColumn + chunk + 8 > kColumns * Places::kChunksPerColumn) continue;
      ASSERT_EQ(passes([&](int thread) {
                  return Places::chunk_offset(column + (chunk + thread) / Places::kChunksPerColumn,
                                              (chunk + thread) % Places::kChunksPerColumn);
                }),
                1)
          << "reading column " << column << " from chunk " << chunk;
    }
}

TEST(Trans, SharedMemoryHasNoBankConflicts) {
  expect_no_conflicts<1, 128, 128>();
  expect_no_conflicts<1, 256, 64>();
  expect_no_conflicts<2, 64, 64>();
  expect_no_conflicts<2, 128, 64>();
  expect_no_conflicts<4, 32, 32>();
  expect_no_conflicts<4, 64, 64>();
  expect_no_conflicts<8, 16, 64>();
  expect_no_conflicts<8, 64, 32>();
}

}  // namespace
}  // namespace kiln::test
