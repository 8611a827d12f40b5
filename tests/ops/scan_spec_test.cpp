#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/scan/iteration.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

Attributes along(std::int64_t dim) {
  return {{"dim", dim}};
}

TEST(ScanSpec, Dtypes) {
  const auto out = [](DType in, const Attributes& attributes) {
    return infer("cumsum", {shaped(in, {3})}, attributes);
  };
  EXPECT_EQ(out(DType::bf16, along(0))[0].dtype, DType::bf16);
  EXPECT_EQ(out(DType::u8, along(-1))[0].dtype, DType::i64);
  EXPECT_EQ(out(DType::bool_, along(0))[0].dtype, DType::i64);
  EXPECT_EQ(out(DType::f32, {{"dim", std::int64_t{0}}, {"dtype", DType::f64}})[0].dtype, DType::f64);
  EXPECT_EQ(out(DType::f32, {{"dim", std::int64_t{0}}, {"dtype", std::string("int32")}})[0].dtype, DType::i32);
  EXPECT_EQ(infer("cumprod", {shaped(DType::f16, {2, 0, 5})}, along(1))[0].shape, (Dims{2, 0, 5}));
  EXPECT_EQ(infer("cumprod", {shaped(DType::f16, {})}, along(-1))[0].shape, Dims{});
}

TEST(ScanSpec, Errors) {
  const TensorView x = shaped(DType::f32, {4, 5});
  EXPECT_THAT(value_refusal("cumsum", {x}, along(2)), Says("'cumsum'", "'dim' is 2", "-2 to 1"));
  EXPECT_THAT(value_refusal("cumprod", {shaped(DType::f32, {})}, along(1)), HasSubstr("-1 to 0"));
  EXPECT_THAT(type_refusal("cumsum", {x}, {{"dim", std::int64_t{0}}, {"dtype", DType::bool_}}),
              Says("'dtype' is bool", "expected"));
  EXPECT_THAT(type_refusal("cumsum", {x}, {{"dim", std::int64_t{0}}, {"dtype", 2.5}}), Says("'dtype' is 2.5", "None"));
  EXPECT_THAT(value_refusal("cumsum", {x}, {{"dim", std::int64_t{0}}, {"dtype", std::string("int33")}}),
              HasSubstr("int33"));
}

TEST(ScanSpec, ReferenceRunsAlongEitherDimension) {
  HostTensor x(DType::f32, {2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6});
  EXPECT_THAT(run_reference("cumsum", {x.view()}, along(1)).values<double>(), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(run_reference("cumprod", {x.view()}, along(0)).values<double>(), ElementsAre(1, 2, 3, 4, 10, 18));
}

TEST(ScanSpec, ReferenceCastsFirstAndWraps) {
  HostTensor x(DType::f32, {3}, std::vector<double>{1.75, 1.75, 300});
  EXPECT_THAT(
      run_reference("cumsum", {x.view()}, {{"dim", std::int64_t{0}}, {"dtype", DType::u8}}).values<std::int64_t>(),
      ElementsAre(1, 2, 1));
  HostTensor y(DType::i64, {3}, std::vector<std::int64_t>{std::int64_t{1} << 62, 2, 1});
  EXPECT_THAT(run_reference("cumprod", {y.view()}, along(0)).values<std::int64_t>(),
              ElementsAre(std::int64_t{1} << 62, INT64_MIN, INT64_MIN));
}

struct Planned {
  LaunchPlan plan;
  ops::ScanIteration iteration;  ///< the main kernel's
};

Planned plan_of(const TensorMeta& input, std::int64_t dim, const Target& target, const Config* config = nullptr) {
  const PlannedCall call("cumsum", std::vector<TensorMeta>{input}, along(dim));
  if (config != nullptr) call.variant(target).space(target).validate(*config);
  Planned planned{config != nullptr ? call.plan(target, *config) : call.plan(target), {}};
  void* data[kMaxArguments] = {};
  void* parameters[kMaxArguments] = {};
  planned.plan.launches.back().arguments.bind(data, parameters);
  std::memcpy(&planned.iteration, parameters[3], sizeof planned.iteration);
  return planned;
}

TEST(ScanPlan, CutsLongLinesWhereThereAreFew) {
  for (const Target& target : {kHopper, kCpu}) {
    const Planned one = plan_of({DType::bf16, {1, 1 << 24}}, 1, target);
    ASSERT_EQ(one.plan.launches.size(), 3u);
    EXPECT_EQ(one.plan.launches[0].kernel, "kiln::ops::scan_partials_kernel");
    EXPECT_GE(one.iteration.chunks, 16);
    ASSERT_EQ(one.plan.workspace_bytes.size(), 1u);
    EXPECT_EQ(one.plan.workspace_bytes[0], one.iteration.chunks * 4);
    EXPECT_EQ(one.plan.launches[0].geometry.grid[0], one.iteration.chunks);
    EXPECT_EQ(one.plan.launches[1].geometry.grid[0], 1);
    EXPECT_EQ(plan_of({DType::f32, {1 << 24}}, 0, target).plan.launches.size(), 3u);
    EXPECT_EQ(plan_of({DType::f32, {1 << 22, 3}}, 0, target).plan.launches.size(), 3u);
    EXPECT_EQ(plan_of({DType::f32, {4096, 4096}}, 1, target).plan.launches.size(), 1u);
    EXPECT_EQ(plan_of({DType::f32, {1, 4096}}, 1, target).plan.launches.size(), 1u);
    EXPECT_EQ(plan_of({DType::f32, {}}, 0, target).plan.launches.size(), 1u);
    EXPECT_EQ(plan_of({DType::f32, {0, 3}}, 0, target).plan.launches.size(), 1u);
    EXPECT_EQ(plan_of({DType::f32, {0, 3}}, 1, target).plan.launches.size(), 1u);
  }
}

TEST(ScanPlan, ChunksCoverEveryLineOnce) {
  std::mt19937_64 random(5);
  for (const Target& target : {kHopper, kCpu}) {
    const std::vector<Config> configs = spec_of("cumsum").variants.at(0).space(target).enumerate();
    for (int i = 0; i < 500; ++i) {
      const auto extent = [&](int most_bits) {
        return std::int64_t{1} +
               (std::int64_t{1} << random() % most_bits) * static_cast<std::int64_t>(random() % 3) / 2;
      };
      const Dims shape{extent(8), extent(22), extent(10)};
      const Config& config = configs[random() % configs.size()];
      const Planned planned = plan_of({DType::f32, shape}, 1, target, &config);
      const ops::ScanIteration& iteration = planned.iteration;
      SCOPED_TRACE(to_string(shape) + " " + to_string(config) + " " + to_string(target));
      EXPECT_EQ(iteration.length, shape[1]);
      EXPECT_GE(iteration.chunks * iteration.chunk_length, iteration.length);
      EXPECT_LT((iteration.chunks - 1) * iteration.chunk_length, iteration.length);
      if (iteration.chunks > 1) {
        EXPECT_EQ(iteration.chunk_length % config.at("BLOCK_LENGTH"), 0);
      }
      std::int64_t lines = iteration.lines;
      for (int dim = 0; dim < iteration.num_outer_dims; ++dim) lines *= iteration.outer_extents[dim];
      EXPECT_EQ(lines, shape[0] * shape[2]);
      EXPECT_EQ(iteration.line_blocks, (iteration.lines + config.at("BLOCK_LINES") - 1) / config.at("BLOCK_LINES"));
    }
  }
}

}  // namespace
}  // namespace kiln::test
