// How reductions are cut in programs and chunks.

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

Planned plan_of(std::string_view op, const TensorMeta& input, const Attributes& given, const Target& target,
                const Config* config = nullptr) {
  const PlannedCall call(op, std::vector<TensorMeta>{input}, given);
  if (config != nullptr) call.variant(target).space(target).validate(*config);
  Planned planned{config != nullptr ? call.plan(target, *config) : call.plan(target), {}};
  void* data[kMaxArguments] = {};
  void* parameters[kMaxArguments] = {};
  planned.plan.launches.at(0).arguments.bind(data, parameters);
  std::memcpy(&planned.iteration, parameters[1], sizeof planned.iteration);
  return planned;
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
          plan_of(one ? "argmax" : "sum", input, attributes, target, random() % 2 ? &config : nullptr);
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
