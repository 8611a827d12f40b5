#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "ops/indexing/iteration_plan.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

using indexing::Elements;

/// The variant that serves a call over dense tensors, with what it would launch.
struct Planned {
  std::string variant;
  Config config;
  LaunchPlan plan;
  std::vector<CompileRequest> requests;
};

Planned plan(std::string_view op, const std::vector<TensorView>& inputs, std::int64_t dim, const Target& target) {
  const PlannedCall call(op, inputs, {{"dim", dim}});
  return {call.variant(target).name, call.config(target), call.plan(target), call.requests(target)};
}

TEST(IndexingElements, CollapseToFewDimensions) {
  const TensorView x = shaped(DType::f32, {10, 3, 4}), index = shaped(DType::i64, {7}),
                   out = shaped(DType::f32, {7, 3, 4});
  const Elements elements = indexing::index_select_elements(out, x, index, 0);
  ASSERT_EQ(elements.dims.size(), 2u);
  EXPECT_EQ(elements.columns().extent, 12);
  EXPECT_EQ(elements.columns().strides, (std::array<std::int64_t, 3>{1, 0, 1}));
  EXPECT_EQ(elements.rows().extent, 7);
  EXPECT_EQ(elements.rows().strides, (std::array<std::int64_t, 3>{12, 1, 0}));
  EXPECT_EQ(elements.extent, 10);
  EXPECT_EQ(elements.stride, 12);
  EXPECT_EQ(elements.numel, 84);
}

TEST(IndexingElements, TheLongestOuterDimensionIsTheTilesRows) {
  const TensorView x = shaped(DType::f32, {1000, 3, 3}), index = shaped(DType::i64, {1000, 2, 3});
  const Elements elements = indexing::gather_elements(index, x, index, 1);
  ASSERT_EQ(elements.dims.size(), 3u);
  EXPECT_EQ(elements.columns().extent, 3);
  EXPECT_EQ(elements.rows().extent, 1000);
}

TEST(IndexingElements, NoElementsMakeNoPrograms) {
  const auto planned = plan(
      "scatter_add", {shaped(DType::f32, {4, 5}), shaped(DType::i64, {0, 5}), shaped(DType::f32, {0, 5})}, 0, kHopper);
  EXPECT_EQ(planned.plan.launches[1].geometry.grid[0], 0);
  EXPECT_GT(planned.plan.launches[0].geometry.grid[0], 0);
}

TEST(ScatterAddPlan, CopiesDenseTensorsByADenseKernel) {
  const auto copy_of = [](const TensorView& x) {
    PlannedCall call("scatter_add", {x, shaped(DType::i64, x.shape), x}, {{"dim", std::int64_t{0}}});
    call.outputs = {x};
    const Variant& variant = call.spec.variants[0];
    return variant.plan(call.call(), variant.default_config(call.call(), kHopper), kHopper).launches[0].kernel;
  };
  TensorView x = shaped(DType::f32, {300});
  EXPECT_EQ(copy_of(x), "kiln::ops::copy_dense_kernel");
  x.strides[0] = -1;
  EXPECT_EQ(copy_of(x), "kiln::ops::copy_strided_kernel") << "backwards";
  x.strides[0] = 2;
  EXPECT_EQ(copy_of(x), "kiln::ops::copy_strided_kernel");
  EXPECT_EQ(copy_of(shaped(DType::f32, {})), "kiln::ops::copy_dense_kernel");
  EXPECT_EQ(copy_of(shaped(DType::f32, {4, 5, 6})), "kiln::ops::copy_dense_kernel");
}

TEST(IndexingVariants, WholeRowsGoByRows) {
  const auto variant_of = [](DType dtype, const Dims& shape, std::int64_t dim) {
    return plan("index_select", {shaped(dtype, shape), shaped(DType::i64, {5000})}, dim, kHopper).variant;
  };
  EXPECT_EQ(variant_of(DType::f32, {1000, 4096}, 0), "rows");
  EXPECT_EQ(variant_of(DType::bf16, {1000, 64}, 0), "rows");
  EXPECT_EQ(variant_of(DType::bf16, {3, 1000, 8, 16}, 1), "rows");
  EXPECT_EQ(variant_of(DType::f32, {1000, 16}, 0), "elements") << "short rows";
  EXPECT_EQ(variant_of(DType::f32, {1000, 4096}, 1), "elements") << "an index for every element";
  EXPECT_EQ(variant_of(DType::bf16, {1000, 1001}, 0), "elements") << "rows that start anywhere";
}

TEST(IndexingVariants, ProgramsOfRowsReadAFewKilobytes) {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64})
    for (const std::int64_t columns : {256, 512, 768, 2048, 5120, 8192}) {
      const auto planned =
          plan("index_select", {shaped(dtype, {1000, columns}), shaped(DType::i64, {100000})}, 0, kHopper);
      ASSERT_EQ(planned.variant, "rows");
      const std::int64_t bytes = planned.config.at("ROWS") * planned.config.at("BLOCK_BYTES");
      EXPECT_GE(bytes, 2048) << name(dtype) << " " << columns;
      EXPECT_LE(bytes, 8192) << name(dtype) << " " << columns;
      EXPECT_EQ(columns * itemsize_bytes(dtype) % planned.config.at("BLOCK_BYTES"), 0) << name(dtype) << " " << columns;
    }
}

TEST(IndexingKernels, CompileWithoutSpilling) {
  if (const std::string problem = compiler_problem(DeviceType::cuda); !problem.empty()) GTEST_SKIP() << problem;
  const auto check = [](const Planned& planned) {
    for (const CompileRequest& request : planned.requests)
      EXPECT_LE(expect_no_spills(request).registers, 128) << instance_name(request);
  };
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    const Target target = parse_cuda_target(arch);
    for (const DType dtype : {DType::u8, DType::bf16, DType::f64}) {
      if (dtype == DType::f64 && target.arch != "sm_90a") continue;
      for (const std::int64_t columns : {64, 5120})
        check(plan("index_select", {shaped(dtype, {1000, columns}), shaped(DType::i64, {100000})}, 0, target));
      check(plan("gather", {shaped(dtype, {1000, 100}), shaped(DType::i32, {1000, 100})}, 1, target));
      check(plan("scatter_add",
                 {shaped(dtype, {1000, 100}), shaped(DType::i64, {1000, 100}), shaped(dtype, {1000, 100})}, 0, target));
    }
  }
}

}  // namespace
}  // namespace kiln::test
