#include "core/errors.hpp"
#include "ops/layout/copy_config.hpp"
#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

using kiln::layout::CopyKind;
using List = std::vector<std::int64_t>;

Dims shape_of(std::string_view op, const std::vector<TensorView>& inputs, const Attributes& attributes = {}) {
  return infer(op, inputs, attributes).at(0).shape;
}

TEST(LayoutSpec, ShapesAndDTypes) {
  const TensorView x = shaped(DType::bf16, {2, 3, 5});
  EXPECT_EQ(shape_of("transpose", {x}), (Dims{2, 5, 3}));
  EXPECT_EQ(shape_of("transpose", {x}, {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{-1}}}), (Dims{5, 3, 2}));
  EXPECT_EQ(shape_of("permute", {x}, {{"dims", List{-1, 0, 1}}}), (Dims{5, 2, 3}));
  EXPECT_EQ(shape_of("permute", {shaped(DType::f32, {})}, {{"dims", List{}}}), Dims{});
  EXPECT_EQ(shape_of("concat", {x, shaped(DType::bf16, {2, 0, 5}), x}, {{"dim", std::int64_t{1}}}), (Dims{2, 6, 5}));
  EXPECT_EQ(infer("copy", {x}).at(0).dtype, DType::bf16);
  EXPECT_EQ(infer("copy", {x}, {{"dtype", DType::i8}}).at(0).dtype, DType::i8);
}

TEST(LayoutSpec, Refusals) {
  const TensorView x = shaped(DType::f32, {2, 3, 5});
  EXPECT_THAT(value_refusal("transpose", {x}, {{"dim1", std::int64_t{3}}}), HasSubstr("'dim1' is 3"));
  EXPECT_THAT(value_refusal("transpose", {shaped(DType::f32, {4})}, {}), HasSubstr("'dim0' is -2"));
  EXPECT_THAT(value_refusal("permute", {x}, {{"dims", List{0, 1}}}), HasSubstr("3 dimensions; name each of them once"));
  EXPECT_THAT(value_refusal("permute", {x}, {{"dims", List{0, 1, -2}}}), HasSubstr("names dimension 1 twice"));
  EXPECT_THAT(value_refusal("permute", {x}, {{"dims", List{0, 1, 3}}}), HasSubstr("expected -3 to 2"));
  EXPECT_THAT(type_refusal("concat", {x, shaped(DType::f16, {2, 3, 5})}, {}),
              HasSubstr("input 1 is f16 and input 0 f32"));
  EXPECT_THAT(value_refusal("concat", {x, x, shaped(DType::f32, {2, 4, 5})}, {}),
              HasSubstr("input 2 has shape (2, 4, 5) and input 0 (2, 3, 5); they may differ in dimension 0 only"));
  EXPECT_THAT(value_refusal("concat", {x, shaped(DType::f32, {2, 3})}, {}), HasSubstr("input 1 has shape (2, 3)"));
  EXPECT_THAT(value_refusal("concat", {x}, {{"dim", std::int64_t{-4}}}), HasSubstr("'dim' is -4"));
  EXPECT_THAT(value_refusal("concat", {shaped(DType::f32, {})}, {}), HasSubstr("no dimensions to join along"));
}

TEST(LayoutReference, MovesElementsToTheirPlaces) {
  HostTensor x(DType::i32, {2, 3}, List{1, 2, 3, 4, 5, 6});
  HostTensor y(DType::i32, {2, 1}, List{7, 8});
  EXPECT_THAT(run_reference("transpose", {x.view()}).values<std::int64_t>(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(run_reference("permute", {x.view()}, {{"dims", List{1, 0}}}).values<std::int64_t>(),
              ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(run_reference("concat", {x.view(), y.view()}, {{"dim", std::int64_t{1}}}).values<std::int64_t>(),
              ElementsAre(1, 2, 3, 7, 4, 5, 6, 8));
  HostTensor z(DType::f32, {4}, std::vector<double>{-1.5, 300, NAN, 1});
  EXPECT_THAT(run_reference("copy", {z.view()}, {{"dtype", DType::i8}}).values<std::int64_t>(),
              ElementsAre(-1, 127, 0, 1));
}

TensorView strided(DType dtype, const Dims& shape, const Dims& strides) {
  TensorView view = shaped(dtype, shape);
  view.strides = strides;
  return view;
}

CopyKind kind(const TensorView& out, const TensorView& in) {
  return layout::kind_of(layout::make_copy(out, in), DeviceType::cuda);
}

TEST(LayoutPlan, PicksTheKernel) {
  EXPECT_EQ(kind(shaped(DType::f32, {64, 100}), shaped(DType::bf16, {64, 100})), CopyKind::contiguous);
  EXPECT_EQ(kind(strided(DType::f32, {64, 100}, {1, 64}), strided(DType::f32, {64, 100}, {1, 64})),
            CopyKind::contiguous);
  EXPECT_EQ(kind(shaped(DType::f32, {640, 200}), strided(DType::f32, {640, 200}, {1, 640})), CopyKind::transposed);
  EXPECT_EQ(kind(shaped(DType::f32, {640, 104}), strided(DType::f32, {640, 104}, {1, 640})), CopyKind::transposed);
  EXPECT_EQ(kind(shaped(DType::f32, {64, 200}), strided(DType::f32, {64, 200}, {1, 64})), CopyKind::strided);
  // Short rows of the output that are not whole sectors, with no gap between them.
  EXPECT_EQ(kind(shaped(DType::f32, {64, 100}), strided(DType::f32, {64, 100}, {1, 64})), CopyKind::interleaved);
  EXPECT_EQ(kind(strided(DType::f32, {640, 100}, {101, 1}), strided(DType::f32, {640, 100}, {1, 640})),
            CopyKind::transposed);
  // A batch of matrices, with the batch between their dimensions.
  EXPECT_EQ(kind(shaped(DType::u8, {64, 30, 100}), strided(DType::u8, {64, 30, 100}, {1, 64, 64 * 30})),
            CopyKind::transposed);
  EXPECT_EQ(kind(shaped(DType::f32, {3, 1000}), strided(DType::f32, {3, 1000}, {1, 3})), CopyKind::strided);
  EXPECT_EQ(kind(shaped(DType::bf16, {32, 7, 128}), strided(DType::bf16, {32, 7, 128}, {128, 32 * 128, 1})),
            CopyKind::strided);
  EXPECT_EQ(kind(shaped(DType::f32, {10000, 3, 3}), strided(DType::f32, {10000, 3, 3}, {9, 1, 3})), CopyKind::indexed);
  // Both run backwards, which is the same as forwards.
  const layout::Copy copy = layout::make_copy(strided(DType::f32, {100}, {-1}), strided(DType::f32, {100}, {-1}));
  EXPECT_EQ(layout::kind_of(copy, DeviceType::cuda), CopyKind::contiguous);
  EXPECT_EQ(copy.out_offset, -99);
  EXPECT_EQ(copy.in_offset, -99);
}

KernelLaunch launch_of(const TensorView& out, const TensorView& in) {
  const Target target = parse_cuda_target("sm_90a");
  const layout::Copy copy = layout::make_copy(out, in);
  const CopyKind chosen = layout::kind_of(copy, DeviceType::cuda);
  const Config config = layout::default_config(chosen, copy, target);
  layout::config_space(chosen, target).validate(config);
  return layout::make_launch(chosen, "copy", copy, config, target, {.tensor = 0}, 1);
}

TEST(LayoutPlan, TransposesByWordsWhateverTheAlignment) {
  const auto transposed = [](DType dtype, std::int64_t rows, std::int64_t columns) {
    return launch_of(shaped(dtype, {columns, rows}), strided(dtype, {columns, rows}, {1, columns}));
  };
  EXPECT_EQ(spelled(transposed(DType::f32, 16384, 16384)), "kiln::tl::uint32_t, 64, 128, false, 0");
  EXPECT_EQ(transposed(DType::f32, 16384, 16384).geometry.grid[0], 256 * 128);
  EXPECT_EQ(transposed(DType::f32, 16384, 16384).geometry.num_warps, 16);
  EXPECT_EQ(spelled(transposed(DType::f32, 1024, 1024)), "kiln::tl::uint32_t, 16, 64, false, 0");
  EXPECT_EQ(spelled(transposed(DType::bf16, 16384, 16384)), "kiln::tl::uint16_t, 128, 128, false, 0");
  EXPECT_EQ(spelled(transposed(DType::i8, 16384, 16384)), "kiln::tl::uint8_t, 128, 256, false, 0");
  // Rows of 9973 straddle words; of rows of 10007 each tile writes a sector of 32 bytes less than it reads.
  EXPECT_EQ(spelled(transposed(DType::i8, 10007, 9973)), "kiln::tl::uint8_t, 128, 128, true, 32");
  EXPECT_EQ(transposed(DType::i8, 10007, 9973).geometry.grid[0], ((10007 + 31 + 95) / 96) * ((9973 + 127) / 128));
  EXPECT_EQ(spelled(transposed(DType::f32, 10007, 9973)), "kiln::tl::uint32_t, 32, 256, false, 32");
  EXPECT_EQ(spelled(transposed(DType::bf16, 10016, 9974)), "kiln::tl::uint16_t, 128, 128, false, 0");
  EXPECT_EQ(spelled(transposed(DType::bf16, 10016, 9973)), "kiln::tl::uint16_t, 128, 64, true, 0");
  // Too few tiles to fill the processors.
  EXPECT_EQ(spelled(transposed(DType::bf16, 470, 124)), "kiln::tl::uint16_t, 32, 64, false, 32");
  EXPECT_EQ(transposed(DType::bf16, 470, 124).geometry.num_warps, 4);
}

TEST(LayoutPlan, InterleavesAsManyColumnsAsFit) {
  const auto interleaved = [](std::int64_t rows, std::int64_t columns) {
    return launch_of(shaped(DType::bf16, {columns, rows}), strided(DType::bf16, {columns, rows}, {1, columns}));
  };
  const KernelLaunch large = interleaved(30, 999740), small = interleaved(30, 740);
  EXPECT_EQ(spelled(large), "kiln::tl::uint16_t, 16384");
  EXPECT_EQ(large.geometry.grid[0], (999740 + 255) / 256);
  EXPECT_EQ(spelled(small), "kiln::tl::uint16_t, 2048");
  EXPECT_EQ(small.geometry.grid[0], (740 + 31) / 32);
}

TEST(LayoutPlan, RowsOfOneTileAreFull) {
  const KernelLaunch launch = launch_of(shaped(DType::bf16, {32, 32, 2048, 128}),
                                        strided(DType::bf16, {32, 32, 2048, 128}, {2048 * 32 * 128, 128, 32 * 128, 1}));
  EXPECT_EQ(launch.kernel, "kiln::ops::copy_strided_kernel");
  EXPECT_EQ(spelled(launch), "kiln::tl::uint16_t, kiln::tl::uint16_t, 16, 128, 0, 5");
  EXPECT_EQ(launch.vector_width, 8);
  // Rows 999 elements apart: no access of more than one element is aligned everywhere.
  EXPECT_EQ(launch_of(shaped(DType::f32, {100, 998}), strided(DType::f32, {100, 998}, {999, 1})).vector_width, 1);
}

TEST(LayoutPlan, ConcatOfDenseRowsIsOneLaunchOfInputsThatAreNotEmpty) {
  const PlannedCall call("concat",
                         {shaped(DType::f32, {5, 100}), shaped(DType::f32, {5, 0}),
                          shaped(DType::f32, {5, 64}, {80, 1}), shaped(DType::f32, {5, 1})},
                         {{"dim", std::int64_t{1}}});
  const LaunchPlan plan = call.plan(kHopper, {{"BLOCK_M", 2}, {"BLOCK_N", 64}, {"num_warps", 4}});
  ASSERT_EQ(plan.launches.size(), 1u);
  EXPECT_EQ(plan.launches[0].kernel, "");
  EXPECT_EQ(plan.launches[0].geometry.grid[0], 2 * 3 + 3 + 3);
  EXPECT_EQ(plan.launches[0].arguments.size(), 5);
  EXPECT_EQ(plan.launches[0].vector_width, 1);  // the output's rows have 165 elements
  EXPECT_EQ(call.variant(kCpu).name, "pieces");
}

TEST(LayoutPlan, ConcatLaunchesOneKernelForEachInputWhereSomeAreNoDenseRows) {
  const PlannedCall call(
      "concat", {shaped(DType::f32, {5, 100}), shaped(DType::f32, {5, 0}), shaped(DType::f32, {5, 64}, {1, 5})},
      {{"dim", std::int64_t{1}}});
  const LaunchPlan plan = call.plan(kHopper);
  ASSERT_EQ(plan.launches.size(), 2u);
  EXPECT_EQ(plan.launches[0].kernel, "kiln::ops::copy_strided_kernel");
}

/// One shape of tile serves all pieces of a launch.
TEST(ConcatCall, PiecesUnlikeEachOtherHaveLaunchesOfTheirOwn) {
  const auto variant_of = [](const TensorView& x, const TensorView& y) {
    return PlannedCall("concat", {x, y}).variant(kHopper).name;
  };
  const auto every_other = [](std::int64_t extent) { return shaped(DType::f32, {extent}, {2}); };
  const auto dense = [](std::int64_t extent) { return shaped(DType::f32, {extent}); };
  EXPECT_EQ(variant_of(dense(300), dense(500)), "joined");
  EXPECT_EQ(variant_of(dense(100'000'000), dense(99'999'999)), "joined");
  EXPECT_EQ(variant_of(dense(300), every_other(500)), "joined");
  EXPECT_EQ(variant_of(dense(100'000'000), every_other(99'999'999)), "pieces");
  EXPECT_EQ(variant_of(dense(99'999'999), every_other(100'000'000)), "pieces");
}

}  // namespace
}  // namespace kiln::test
