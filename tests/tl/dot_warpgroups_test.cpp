// Products of warpgroups: every type in all orders, of pipelines' tiles, and of operands that stay.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/tl/dot_products.hpp"

namespace kiln::test {
namespace {

/// Of wgmma: several blocks of rows to a warpgroup, wide ones, K of half a panel's line and of several panels, a panel
/// that two warpgroups share. Of 16-bit types; others' K has as many bytes.
constexpr DotBlocks kWgmmaBlocks[] = {{128, 256, 64, 3, 8}, {256, 64, 16, 4, 8}, {64, 32, 128, 3, 4},
                                      {128, 128, 64, 1, 4}, {64, 256, 32, 2, 8}, {128, 16, 64, 5, 8},
                                      {64, 64, 64, 3, 8}};
std::vector<DotBlocks> wgmma_blocks(DType dtype) {
  std::vector<DotBlocks> all(std::begin(kWgmmaBlocks), std::end(kWgmmaBlocks));
  for (DotBlocks& blocks : all) blocks.k = std::max<std::int64_t>(blocks.k * 2 / itemsize_bytes(dtype), 16);
  return all;
}

class DotOfWarpgroups : public DotTest {
 protected:
  /// In all orders and in every `step`-th of the blocks; fewer where there is no wgmma.
  void expect_warpgroup_products(const DotTypes& types, std::size_t turn, std::size_t step) {
    const std::vector<DotBlocks> blocks = wgmma_blocks(types.a);
    if (!GetParam().is_cuda()) step = blocks.size();
    for (std::size_t i = 0; i < blocks.size(); i += step) expect_products(types, kAllOrders, turn + i, blocks);
    expect_products(types, {{2, 2}}, turn, blocks);
  }
};

TEST_P(DotOfWarpgroups, ProductsOfBf16) {
  expect_warpgroup_products({DType::bf16, DType::bf16}, 0, 1);
}
TEST_P(DotOfWarpgroups, ProductsOfF16) {
  expect_warpgroup_products({DType::f16, DType::f16}, 5, 6);
}
TEST_P(DotOfWarpgroups, ProductsOfTf32) {
  expect_warpgroup_products({DType::f32, DType::f32, true}, 0, 1);
}
TEST_P(DotOfWarpgroups, ProductsOfI8) {
  expect_warpgroup_products({DType::i8, DType::i8}, 1, 1);
}
TEST_P(DotOfWarpgroups, ProductsOfU8) {
  expect_warpgroup_products({DType::u8, DType::u8}, 2, 3);
  expect_warpgroup_products({DType::i8, DType::u8}, 3, 3);
  expect_warpgroup_products({DType::u8, DType::i8}, 4, 3);
}
TEST_P(DotOfWarpgroups, ProductsOfFp8) {
  expect_warpgroup_products({DType::fp8e4m3, DType::fp8e4m3}, 2, 1);
}
TEST_P(DotOfWarpgroups, ProductsOfMixedFp8) {
  expect_warpgroup_products({DType::fp8e5m2, DType::fp8e5m2}, 3, 3);
  expect_warpgroup_products({DType::fp8e4m3, DType::fp8e5m2}, 4, 3);
  expect_warpgroup_products({DType::fp8e5m2, DType::fp8e4m3}, 5, 3);
}
TEST_P(DotOfWarpgroups, SumsOfFp8ThatAreAddedOnTheirWay) {
  for (const std::int64_t most : {32, 64, 128})
    expect_warpgroup_products({DType::fp8e4m3, DType::fp8e5m2, false, false, most}, static_cast<std::size_t>(most / 32),
                              3);
}

/// In all orders of 16-bit types; others' lines along K, since what is turned has powers of two.
constexpr DotBlocks kUnevenBlocks[] = {{128, 96, 64, 3, 8},  {64, 176, 48, 3, 4},  {192, 80, 96, 2, 4},
                                       {128, 160, 32, 4, 8}, {64, 112, 160, 2, 4}, {320, 48, 64, 2, 4},
                                       {64, 128, 112, 2, 8}};
TEST_P(DotOfWarpgroups, BlocksThatAreNoPowersOfTwo) {
  if (GetParam().is_cuda() && device_info(GetParam()).target.arch != "sm_90a")
    GTEST_SKIP() << "extents are powers of two here";
  for (std::size_t i = 0; i < std::size(kUnevenBlocks); ++i) {
    expect_products({DType::bf16, DType::bf16}, kAllOrders, i, kUnevenBlocks);
    expect_products({DType::f32, DType::f32, true}, {{0, 1}}, i, kUnevenBlocks);
  }
  constexpr DotBlocks kUnevenBytes[] = {{128, 96, 96, 3, 8}, {64, 176, 160, 3, 4}, {320, 48, 64, 3, 4}};
  for (std::size_t i = 0; i < std::size(kUnevenBytes); ++i) {
    expect_products({DType::i8, DType::u8}, {{0, 1}}, i, kUnevenBytes);
    expect_products({DType::fp8e4m3, DType::fp8e5m2, false, false, 64}, {{0, 1}}, i, kUnevenBytes);
  }
}
TEST_P(DotOfWarpgroups, OfOperandsThatStay) {
  struct Case {
    DType dtype;
    bool tf32;
    std::int64_t m, n, k, start;
    int num_warps;
  };
  // Sums of integers wrap.
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  for (const Case& c : {Case{DType::bf16, false, 64, 64, 64, 3, 4},
                        {DType::i8, false, 128, 64, 64, kLargest - 1000, 8},
                        {DType::u8, false, 64, 128, 64, kLargest - 7, 8},
                        {DType::fp8e4m3, false, 128, 64, 64, 5, 4},
                        {DType::f32, true, 64, 64, 32, -3, 4},
                        {DType::i8, false, 32, 64, 64, kLargest, 2}})
    for (const auto& [order_a, order_b] : kAllOrders) {
      SCOPED_TRACE(::testing::Message() << name(c.dtype) << ", orders " << order_a << order_b << ", " << c.num_warps
                                        << " warps");
      const auto a = draw(c.dtype, c.m * c.k), b = draw(c.dtype, c.k * c.n);
      std::vector<double> expected(static_cast<std::size_t>(c.m * c.n), 77);
      std::vector<Tensor> tensors{tensor_of_numbers(c.dtype, a), tensor_of_numbers(c.dtype, b),
                                  tensor_of_numbers(sum_type(c.dtype), expected)};
      dot_kernel("matmul_of_operands", {c.dtype, c.m, c.n, c.k, c.tf32, std::int64_t{order_a}, std::int64_t{order_b}},
                 c.num_warps)
          .run(GetParam(), {1, 1, 1}, tensors, {c.start});
      for (std::int64_t row = 0; row < c.m; ++row)
        for (std::int64_t column = 0; column < c.n; ++column) {
          auto sum = static_cast<double>(c.start);
          for (std::int64_t i = 0; i < c.k; ++i)
            sum += 2 * a[place(order_a, order_a == 0 ? c.k : c.m, row, i)] *
                   b[place(order_b, order_b == 0 ? c.n : c.k, i, column)];
          if (sum_type(c.dtype) == DType::i32)
            sum = static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(sum)));
          expected[place(0, c.n, row, column)] = sum;
        }
      ASSERT_EQ(numbers_of(tensors[2]), expected);
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, DotOfWarpgroups, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DotOfWarpgroups);

/// By wgmma alone, in all orders, and nothing in the way of products that go on.
TEST(DotOfWarpgroupsOnGpus, AllTypesRunInTheBackground) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const std::vector<DotTypes> all_types{{DType::f32, DType::f32, true},
                                        {DType::fp8e4m3, DType::fp8e4m3},
                                        {DType::fp8e5m2, DType::fp8e4m3},
                                        {DType::fp8e4m3, DType::fp8e5m2, false, false, 64},
                                        {DType::i8, DType::i8},
                                        {DType::u8, DType::u8},
                                        {DType::i8, DType::u8}};
  std::size_t turn = 0;
  for (const DotTypes& types : all_types)
    for (const auto& [order_a, order_b] : {kAllOrders[turn % 4], kAllOrders[(turn + 1) % 4]}) {
      const std::int64_t line = 128 / itemsize_bytes(types.a);
      const DotBlocks all_blocks[] = {{128, 128, line, 3, 8}, {64, 128, line / 2, 4, 4}, {128, 256, line, 4, 8}};
      const DotBlocks& blocks = all_blocks[types.max_num_imprecise_acc < kAllImprecise ? turn++ % 2 : turn++ % 3];
      SCOPED_TRACE(::testing::Message() << name(types.a) << " by " << name(types.b) << ", orders " << order_a << order_b
                                        << ", " << blocks.m << "x" << blocks.n << "x" << blocks.k);
      const PtxasReport report =
          expect_no_spills(dot_kernel("matmul", matmul_arguments(types, blocks, order_a, order_b), blocks.num_warps)
                               .request(parse_cuda_target("sm_90a")));
      EXPECT_NE(report.ptx.find("wgmma.mma_async"), std::string::npos);
      EXPECT_EQ(report.ptx.find("mma.sync"), std::string::npos);
      EXPECT_FALSE(report.serializes_products);
      EXPECT_EQ(report.dynamic_shared_bytes, shared_bytes(types, blocks));
    }
}

TEST(DotOfWarpgroupsOnGpus, BlocksThatAreNoPowersOfTwoRunInTheBackground) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  struct Case {
    DotTypes types;
    DotBlocks blocks;
    int order_a, order_b;
  };
  const DotTypes bf16{DType::bf16, DType::bf16};
  for (const Case& c : {Case{bf16, {128, 96, 64, 3, 8}, 0, 0},
                        {bf16, {64, 176, 48, 3, 4}, 0, 1},
                        {bf16, {192, 80, 96, 2, 4}, 1, 0},
                        {{DType::f32, DType::f32, true}, {64, 112, 48, 3, 4}, 0, 1},
                        {{DType::fp8e4m3, DType::fp8e4m3, false, false, 64}, {64, 96, 96, 3, 4}, 0, 1}}) {
    SCOPED_TRACE(::testing::Message() << name(c.types.a) << " " << c.blocks.m << "x" << c.blocks.n << "x"
                                      << c.blocks.k);
    const PtxasReport report = expect_no_spills(
        dot_kernel("matmul", matmul_arguments(c.types, c.blocks, c.order_a, c.order_b), c.blocks.num_warps)
            .request(parse_cuda_target("sm_90a")));
    EXPECT_NE(report.ptx.find("wgmma.mma_async"), std::string::npos);
    EXPECT_FALSE(report.serializes_products);
    EXPECT_EQ(report.dynamic_shared_bytes, shared_bytes(c.types, c.blocks));
  }
}

/// What would read or write other elements than it should is refused.
TEST(DotOfWarpgroupsOnGpus, WhatTakesPowersOfTwoSaysSo) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  struct Case {
    const char* arch;
    DotTypes types;
    DotBlocks blocks;
    int order_a, order_b;
    const char* said;
  };
  const DotTypes bf16{DType::bf16, DType::bf16}, i8{DType::i8, DType::i8};
  for (const Case& c :
       {Case{"sm_80", bf16, {64, 64, 48, 3, 4}, 0, 1, "whose lines in shared memory are no power of two"},
        {"sm_90a", bf16, {32, 64, 48, 3, 4}, 0, 1, "whose lines in shared memory are no power of two"},
        {"sm_90a", i8, {64, 96, 64, 3, 4}, 0, 0, "an operand that is turned"},
        {"sm_90a", i8, {64, 64, 48, 3, 4}, 0, 1, "a multiple of 32 for types of one byte"},
        {"sm_90a", bf16, {64, 192, 64, 3, 8}, 0, 0, "by whole panels of 64"}}) {
    SCOPED_TRACE(::testing::Message() << c.arch << ", " << name(c.types.a) << " " << c.blocks.m << "x" << c.blocks.n
                                      << "x" << c.blocks.k);
    const TextKernel kernel =
        dot_kernel("matmul", matmul_arguments(c.types, c.blocks, c.order_a, c.order_b), c.blocks.num_warps);
    try {
      make_nvrtc_compiler()->compile(kernel.request(parse_cuda_target(c.arch)));
      ADD_FAILURE() << "compiled";
    } catch (const CompileError& error) {
      EXPECT_NE(std::string_view(error.what()).find(c.said), std::string_view::npos) << error.what();
    }
  }
}

/// Of one size and type too, which no result shows without a GPU.
TEST(DotOfWarpgroupsOnGpus, OperandsThatStayHaveAPlaceEach) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  constexpr int kSide = 64;
  const PtxasReport report = expect_no_spills(dot_kernel("matmul_of_operands",
                                                         {DType::bf16, std::int64_t{kSide}, std::int64_t{kSide},
                                                          std::int64_t{kSide}, false, std::int64_t{0}, std::int64_t{0}},
                                                         4)
                                                  .request(parse_cuda_target("sm_90a")));
  EXPECT_GE(report.static_shared_bytes, 2 * tl::shared_tile_bytes(kSide, kSide, 2));
}

}  // namespace
}  // namespace kiln::test
