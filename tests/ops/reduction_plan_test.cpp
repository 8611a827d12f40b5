// How reductions are cut in programs and chunks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/errors.hpp"
#include "ops/reduction/iteration.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

struct Planned {
  LaunchPlan plan;
  ops::ReductionIteration iteration;
};

ops::ReductionIteration iteration_of(const LaunchPlan& plan) {
  ops::ReductionIteration iteration;
  void* data[kMaxArguments] = {};
  void* parameters[kMaxArguments] = {};
  plan.launches.at(0).arguments.bind(data, parameters);
  std::memcpy(&iteration, parameters[1], sizeof iteration);
  return iteration;
}

Planned plan_of(std::string_view op, const TensorMeta& input, const Attributes& given, const Target& target,
                const Config* config = nullptr) {
  const PlannedCall call(op, std::vector<TensorMeta>{input}, given);
  if (config != nullptr) call.variant(target).space(target).validate(*config);
  const LaunchPlan plan = config != nullptr ? call.plan(target, *config) : call.plan(target);
  return {plan, iteration_of(plan)};
}

TEST(ReductionPlan, SplitsWhatWouldLeaveTheMachineIdle) {
  for (const Target& target : {kHopper, kCpu}) {
    const Planned all = plan_of("sum", {DType::f32, {16384, 16384}}, {}, target);
    ASSERT_EQ(all.plan.launches.size(), 2u);
    EXPECT_EQ(all.plan.launches[0].kernel, "kiln::ops::reduction_chunk_kernel");
    EXPECT_EQ(all.plan.launches[1].kernel, "kiln::ops::reduction_combine_kernel");
    EXPECT_GE(all.iteration.chunks, 200);
    ASSERT_EQ(all.plan.workspace_bytes.size(), 1u);
    EXPECT_GE(all.plan.workspace_bytes[0], all.iteration.chunks * 4);
    EXPECT_EQ(plan_of("sum", {DType::f32, {16384, 16384}}, {{"dim", std::int64_t{1}}}, target).plan.launches.size(),
              1u);
    EXPECT_EQ(plan_of("sum", {DType::f32, {1000}}, {}, target).plan.launches.size(), 1u);
  }
}

TEST(ReductionPlan, ChunksCoverEverythingOnceAndFitTheirPositions) {
  std::mt19937_64 random(11);
  const auto extent = [&] { return std::int64_t{1} << (random() % 12); };
  for (const Target& target : {kHopper, kCpu}) {
    const std::vector<Config> configs = spec_of("argmax").variants.at(0).space(target).enumerate();
    for (int round = 0; round < 400; ++round) {
      const bool one = random() % 2 == 0;
      const TensorMeta input{round % 2 == 0 ? DType::f32 : DType::i8,
                             {extent() + static_cast<std::int64_t>(random() % 3), extent(), 1 + extent() / 7}};
      const Attributes attributes = {{"dim", one ? AttributeValue(static_cast<std::int64_t>(random() % 3))
                                                 : AttributeValue(std::vector<std::int64_t>{0, 2})}};
      const Config& config = configs[random() % configs.size()];
      const Planned planned =
          plan_of(one ? "argmax" : "any", input, attributes, target, random() % 2 ? &config : nullptr);
      const ops::ReductionIteration& it = planned.iteration;
      SCOPED_TRACE(to_string(input.shape) + " " + to_string(config));
      EXPECT_GE(it.pieces * it.piece_extent, it.reduced);
      EXPECT_LT((it.pieces - 1) * it.piece_extent, it.reduced);
      const std::int64_t groups = it.chunks / it.pieces;
      EXPECT_EQ(groups * it.pieces, it.chunks);
      EXPECT_GE(groups * it.outer_reduced_per_chunk, it.outer_reduced);
      EXPECT_LT((groups - 1) * it.outer_reduced_per_chunk, it.outer_reduced);
      if (it.outer_reduced_per_chunk > 1)
        EXPECT_LT(it.outer_reduced_per_chunk * it.reduced, std::int64_t{1} << 31);
      else
        EXPECT_LT(it.piece_extent, std::int64_t{1} << 31);
      EXPECT_LE(it.pieces, 65535);
      EXPECT_LE(groups, 65535);
    }
  }
}

/// Of one element each, what gives it back as it is copies it, and across where it lies so.
TEST(ReductionPlan, ReductionsOfOneElementAreCopies) {
  TensorView x = shaped(DType::f32, {1, 300, 500});
  x.strides = {150'000, 1, 300};
  const auto kernel_of = [&](std::string_view op, const Attributes& given) {
    const PlannedCall call(op, std::vector<TensorView>{x}, given);
    return call.variant(kHopper).name + " " + call.plan(kHopper).launches.at(0).kernel;
  };
  const Attributes first = {{"dim", std::int64_t{0}}};
  for (const std::string_view op : {"sum", "mean", "prod", "amax", "amin"})
    EXPECT_EQ(kernel_of(op, first), "single_element kiln::ops::copy_transposed_kernel") << op;
  for (const std::string_view op : {"var", "norm", "logsumexp", "argmax", "any"})
    EXPECT_THAT(kernel_of(op, first), testing::StartsWith("tiled")) << op;
  EXPECT_THAT(kernel_of("sum", {{"dim", std::int64_t{0}}, {"dtype", DType::f64}}), testing::StartsWith("tiled"));
  EXPECT_THAT(kernel_of("sum", {{"dim", std::int64_t{1}}}), testing::StartsWith("tiled"));
}

/// Roundings of equal elements all go one way: what one f32 adds up one after the other is bounded, however many
/// columns keep the programs busy.
TEST(ReductionPlan, LanesOfColumnsAddUpAFewThousandElements) {
  for (const Config& config : spec_of("sum").variants.back().space(kCpu).enumerate())
    for (const Dims& shape : {Dims{1, 2'097'152, 16}, Dims{256, 65'536, 16}, Dims{3, 100'000, 4096}}) {
      const ops::ReductionIteration it =
          plan_of("sum", {DType::f32, shape}, {{"dim", std::int64_t{1}}}, kCpu, &config).iteration;
      EXPECT_LE(it.piece_extent * it.outer_reduced_per_chunk, config.at("BLOCK_M") * (2048 + config.at("UNROLL")))
          << to_string(shape) << " " << to_string(config);
    }
}

/// A CPU fetches ahead for whole rows: a program of columns from memory goes along them, as far as a span goes.
TEST(ReductionPlan, ColumnsFromMemoryAreReadInWholeRows) {
  struct Columns {
    DType dtype;
    Dims shape, strides;
    bool spans;
    std::int64_t blocks;
  };
  const Columns cases[] = {
      {DType::f32, {100'000, 700}, {700, 1}, true, 1},
      {DType::bf16, {100'000, 4096}, {4096, 1}, true, 1},
      {DType::f32, {100'000, 2000}, {2100, 1}, true, 1},
      {DType::f32, {400, 200'000}, {200'000, 1}, true, 25},
      {DType::f32, {1'000'000, 64}, {64, 1}, false, 1},                // registers hold a row's states
      {DType::f32, {2, 50'000'000}, {50'000'000, 1}, false, 195'313},  // too few rows for states in memory
      {DType::f32, {100, 700}, {700, 1}, false, 11},                   // in the caches
  };
  for (const Columns& columns : cases) {
    SCOPED_TRACE(to_string(columns.shape));
    const PlannedCall call("sum", {shaped(columns.dtype, columns.shape, columns.strides)}, {{"dim", std::int64_t{0}}});
    const LaunchPlan plan = call.plan(kCpu);
    EXPECT_EQ(plan.launches[0].kernel.find("_span_") != std::string::npos, columns.spans) << plan.launches[0].kernel;
    EXPECT_EQ(iteration_of(plan).kept_blocks, columns.blocks);
  }
}

TEST(ReductionPlan, PlacesAreSearchedForInMemorysOrder) {
  struct Search {
    Dims shape, strides;
    std::size_t kernels;
    std::int64_t kept, reduced, reduced_stride;
  };
  const Search searches[] = {
      {{106'024, 7}, {1, 106'024}, 2, 7, 106'024, 1},  // rows of memory
      {{7, 106'024}, {1, 7}, 2, 7, 106'024, 7},        // its columns, side by side
      {{5000, 1000}, {1200, 1}, 2, 5000, 1000, 1},     // in order, and a program to a row
      {{20, 30, 400}, {1, 20, 600}, 2, 20, 400, 600},  // of three dimensions the longest
      {{3, 4}, {1, 3}, 1, 1, 4, 3},                    // not worth a second kernel
      {{100, 10}, {10, 1}, 1, 1, 1000, 1},             // one stretch of memory
  };
  for (const Target& target : {kHopper, kCpu})
    for (const Search& search : searches) {
      SCOPED_TRACE(to_string(search.shape) + " strides " + to_string(search.strides) + " for " + to_string(target));
      const LaunchPlan plan = PlannedCall("argmax", {shaped(DType::i32, search.shape, search.strides)}).plan(target);
      const ops::ReductionIteration it = iteration_of(plan);
      EXPECT_EQ(plan.launches.size(), search.kernels);
      EXPECT_EQ(it.kept, search.kept);
      EXPECT_EQ(it.reduced, search.reduced);
      EXPECT_EQ(it.reduced_stride, search.reduced_stride);
    }
}

TEST(ReductionPlan, EmptyTensorsHaveAPlan) {
  for (const Target& target : {kHopper, kCpu})
    for (const Dims& shape : {Dims{0, 5}, Dims{5, 0}, Dims{0, 0}})
      for (const std::int64_t dim : {0, 1})
        EXPECT_EQ(plan_of("sum", {DType::f32, shape}, {{"dim", dim}}, target).plan.launches.size(), 1u)
            << to_string(shape);
}

TEST(ReductionPlan, LongRowsAreCutSoThatPositionsFit) {
  const Planned planned =
      plan_of("argmax", {DType::i8, {4096, std::int64_t{1} << 33}}, {{"dim", std::int64_t{1}}}, kHopper);
  EXPECT_GE(planned.iteration.pieces, 8);
  EXPECT_LE(planned.iteration.piece_extent, std::int64_t{1} << 31);
}

TEST(ReductionPlan, MoreChunksThanAGridHoldsAreRefused) {
  const TensorMeta huge{DType::i8, {1 << 16, 1 << 30}};
  try {
    plan_of("sum", huge, {}, kHopper);
    ADD_FAILURE() << "planned";
  } catch (const UsageError& error) {
    EXPECT_EQ(
        std::string_view(error.what()),
        "op 'sum': 70368744177664 elements to each output take 65536 chunks, but a GPU's grid holds 65535; reduce "
        "the tensor in parts");
  }
  EXPECT_GE(plan_of("sum", huge, {}, kCpu).iteration.pieces, 65536);
}

TEST(ReductionPlan, DoesNotDependOnTheMachine) {
  const Planned a = plan_of("sum", {DType::f32, {1 << 24}}, {}, parse_cuda_target("sm_90a"));
  const Planned b = plan_of("sum", {DType::f32, {1 << 24}}, {}, parse_cuda_target("sm_80"));
  EXPECT_EQ(a.iteration.chunks, b.iteration.chunks);
}

}  // namespace
}  // namespace kiln::test
