#include <cmath>
#include <random>

#include "core/errors.hpp"
#include "ops/normalization/row_tiling.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

constexpr const char* kOps[] = {"softmax", "log_softmax", "layer_norm", "rms_norm"};

TEST(Normalization, InferKeepsTheShape) {
  EXPECT_EQ(infer("softmax", {shaped(DType::bf16, {3, 4})}, {}).at(0).dtype, DType::bf16);
  EXPECT_EQ(infer("log_softmax", {shaped(DType::bf16, {3, 4})}, {{"dtype", DType::f32}}).at(0).dtype, DType::f32);
  EXPECT_EQ(infer("softmax", {shaped(DType::f32, {})}, {{"dim", std::int64_t{-1}}}).at(0).shape, Dims{});
  const TensorView x = shaped(DType::f16, {3, 4}), weight = shaped(DType::f32, {4});
  EXPECT_EQ(infer("layer_norm", {x, weight, weight}).size(), 1U);
  EXPECT_EQ(infer("rms_norm", {x, weight}).size(), 1U);
  const std::vector<TensorMeta> both = infer("rms_norm", {x, weight, x});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[1].shape, x.shape);
  EXPECT_EQ(both[1].dtype, DType::f16);
}

TEST(Normalization, ErrorsNameTheArgumentAndTheValue) {
  const TensorView x = shaped(DType::f32, {2, 3, 4});
  EXPECT_THAT(value_refusal("softmax", {x}, {{"dim", std::int64_t{3}}}), HasSubstr("'dim' is 3"));
  EXPECT_THAT(type_refusal("softmax", {x}, {{"dtype", DType::i32}}), HasSubstr("floating dtype"));
  const auto shape = [](std::vector<std::int64_t> extents) { return Attributes{{"normalized_shape", extents}}; };
  EXPECT_THAT(value_refusal("layer_norm", {x}, shape({3, 5})), Says("[3, 5]", "(2, 3, 4)", "last dimension"));
  value_refusal("layer_norm", {x}, shape({}));
  value_refusal("rms_norm", {x}, shape({1, 2, 3, 4}));
  type_refusal("rms_norm", {x}, {{"normalized_shape", 4.0}});
  value_refusal("layer_norm", {shaped(DType::f32, {})});
  EXPECT_THAT(value_refusal("layer_norm", {x, shaped(DType::f32, {3})}), Says("'weight' has shape (3", "expected (4"));
  EXPECT_THAT(type_refusal("layer_norm", {x, shaped(DType::f64, {4})}), HasSubstr("'weight' is f64"));
  type_refusal("layer_norm", {shaped(DType::f64, {4}), shaped(DType::f32, {4})});
  EXPECT_THAT(value_refusal("layer_norm", {x, shaped(DType::f32, {4}), shaped(DType::f32, {2, 4})}),
              HasSubstr("'bias'"));
  const TensorView narrow = shaped(DType::bf16, {2, 4});
  type_refusal("layer_norm", {narrow, shaped(DType::f32, {4}), shaped(DType::bf16, {4})});
  EXPECT_THAT(value_refusal("rms_norm", {x, shaped(DType::f32, {4}), shaped(DType::f32, {3, 4})}),
              HasSubstr("'residual' has shape (3, 4)"));
  type_refusal("rms_norm", {narrow, shaped(DType::bf16, {4}), shaped(DType::f16, {2, 4})});
  EXPECT_THAT(value_refusal("layer_norm", {x}, {{"eps", -1.0}}), HasSubstr("'eps' is -1"));
  EXPECT_THAT(value_refusal("rms_norm", {x}, {{"eps", std::nan("")}}), HasSubstr("'eps'"));
  type_refusal("rms_norm", {x}, {{"eps", std::string("small")}});
}

TEST(Normalization, ReferenceOfSoftmax) {
  const double inf = INFINITY;
  HostTensor x(DType::f64, {4, 2}, std::vector<double>{0, std::log(3.0), -inf, 1, -inf, -inf, inf, 0});
  const std::vector<double> out = run_reference("softmax", {x.view()}).values<double>();
  EXPECT_NEAR(out[0], 0.25, 1e-15);
  EXPECT_NEAR(out[1], 0.75, 1e-15);
  EXPECT_EQ(out[2], 0);
  EXPECT_EQ(out[3], 1);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
  const std::vector<double> logs = run_reference("log_softmax", {x.view()}).values<double>();
  EXPECT_NEAR(logs[0], std::log(0.25), 1e-15);
  EXPECT_EQ(logs[2], -inf);
  HostTensor y(DType::f32, {2, 2}, std::vector<double>{0, 5, std::log(3.0), 5});
  const std::vector<double> down = run_reference("softmax", {y.view()}, {{"dim", std::int64_t{0}}}).values<double>();
  EXPECT_NEAR(down[0], 0.25, 1e-7);
  EXPECT_NEAR(down[1], 0.5, 1e-7);
}

TEST(Normalization, ReferenceOfNorms) {
  HostTensor x(DType::f64, {1, 2}, std::vector<double>{1, 5}), weight(DType::f64, {2}, std::vector<double>{2, 3}),
      bias(DType::f64, {2}, std::vector<double>{10, 20});
  const Attributes exact = {{"eps", 0.0}};
  EXPECT_EQ(run_reference("layer_norm", {x.view(), weight.view(), bias.view()}, exact).values<double>(),
            (std::vector<double>{8, 23}));
  HostTensor y(DType::f64, {1, 2}, std::vector<double>{3, 3});
  EXPECT_EQ(run_reference("rms_norm", {y.view(), weight.view()}, exact).values<double>(), (std::vector<double>{2, 3}));
  // sum = (4, 8), mean square 40
  HostTensor out(DType::f64, {1, 2}), sum(DType::f64, {1, 2});
  const std::vector<TensorView> inputs = {x.view(), weight.view(), y.view()}, outputs = {out.view(), sum.view()};
  const OpSpec& spec = spec_of("rms_norm");
  spec.reference({inputs, outputs, with_defaults(spec, exact)});
  EXPECT_EQ(sum.values<double>(), (std::vector<double>{4, 8}));
  EXPECT_DOUBLE_EQ(out.values<double>()[1], 8 / std::sqrt(40.0) * 3);
  HostTensor constant(DType::bf16, {1, 3}, std::vector<double>{7, 7, 7});
  EXPECT_EQ(run_reference("layer_norm", {constant.view()}).values<double>(), (std::vector<double>{0, 0, 0}));
}

TEST(Normalization, TilesFollowTheContiguousDimension) {
  const Attributes down = {{"dim", std::int64_t{0}}};
  EXPECT_EQ(PlannedCall("softmax", {{DType::f32, {50, 60}}}, {}).variant(kHopper).name, "rows");
  EXPECT_EQ(PlannedCall("softmax", {{DType::f32, {50, 60}}}, down).variant(kHopper).name, "columns");
  EXPECT_EQ(PlannedCall("layer_norm", {{DType::f32, {50, 60}}}, {}).variant(kCpu).name, "rows");
  // Channels last of a tensor that is stored channels first.
  PlannedCall transposed("layer_norm", {{DType::f32, {50, 60}}}, {});
  transposed.inputs[0].strides = {1, 50};
  transposed.outputs[0].strides = {1, 50};
  EXPECT_EQ(transposed.variant(kHopper).name, "columns");
}

TEST(Normalization, RowsThatFitAreReadOnce) {
  const auto kernel = [](std::string_view op, const Dims& shape, const Target& target) {
    const LaunchPlan plan = PlannedCall(op, {{DType::f32, shape}}, {}).plan(target);
    return plan.launches.front().kernel.substr(std::string("kiln::ops::").size());
  };
  EXPECT_EQ(kernel("softmax", {100, 4096}, kHopper), "softmax_one_pass_kernel");
  EXPECT_EQ(kernel("softmax", {100, 32768}, kHopper), "softmax_one_pass_kernel");
  EXPECT_EQ(kernel("softmax", {10000, 40000}, kHopper), "softmax_online_kernel");
  EXPECT_EQ(kernel("softmax", {4, 1 << 20}, kHopper), "softmax_partial_kernel");
  EXPECT_EQ(kernel("softmax", {100, 4096}, kCpu), "softmax_three_pass_kernel");
  EXPECT_EQ(kernel("softmax", {1, 1 << 24}, kCpu), "softmax_partial_kernel");
  EXPECT_EQ(kernel("rms_norm", {100, 4096}, kHopper), "norm_one_pass_kernel");
  EXPECT_EQ(kernel("rms_norm", {100, 100000}, kHopper), "norm_looped_kernel");
}

TEST(Normalization, ASplitRowHasAWorkspaceForItsStatistics) {
  const PlannedCall call("softmax", {{DType::bf16, {3, 1 << 20}}}, {});
  const Config config{{"BLOCK_M", 1}, {"BLOCK_N", 2048}, {"TILES", 4},
                      {"SPLIT", 16},  {"ANYWHERE", 0},   {"num_warps", 8}};
  const LaunchPlan plan = call.variant(kHopper).plan(call.call(), config, kHopper);
  ASSERT_EQ(plan.launches.size(), 2U);
  EXPECT_EQ(plan.launches[0].geometry.grid[0], 3 * 16);
  EXPECT_EQ(plan.launches[1].geometry.grid[0], 3 * 16);
  EXPECT_EQ(plan.workspace_bytes, (std::vector<std::int64_t>{3 * 16 * 4, 3 * 16 * 4}));
}

TEST(Normalization, DefaultsAreValidForManyShapes) {
  for (const std::string_view op : {"softmax", "rms_norm"})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::fp8e5m2})
      for (const std::int64_t outer : {0, 1, 3, 70, 5000})
        for (const std::int64_t inner : {0, 1, 2, 10, 31, 64, 100, 768, 1000, 1025, 5120, 32768, 40001, 1 << 20})
          for (const bool across : {false, true})
            for (const Target& target : {kCpu, kHopper}) {
              PlannedCall call(op, {{dtype, {outer, inner}}}, {});
              if (across && op == "softmax") call.attributes.set("dim", std::int64_t{0});
              if (across && op != "softmax") {
                call.inputs[0].strides = {1, outer};
                call.outputs[0].strides = {1, outer};
              }
              const Variant& variant = call.variant(target);
              const Config config = variant.default_config(call.call(), target);
              ASSERT_NO_THROW(variant.space(target).validate(config))
                  << op << " " << name(dtype) << " " << outer << "x" << inner << (across ? " across " : " ")
                  << to_string(config);
              ASSERT_NO_THROW(variant.plan(call.call(), config, target));
            }
}

TEST(Normalization, NormsKeep64BytesOfLoadsInFlightForAThread) {
  for (const auto& [dtype, num_warps] : {std::pair{DType::f32, 8}, {DType::bf16, 4}, {DType::f16, 4}})
    for (const char* op : {"layer_norm", "rms_norm"}) {
      const LaunchPlan plan = PlannedCall(op, {{dtype, {32768, 4096}}, {dtype, {4096}}}, {}).plan(kHopper);
      EXPECT_EQ(plan.launches[0].geometry.num_warps, num_warps) << op << " " << name(dtype);
    }
}

TEST(Normalization, FewLongRowsAreSharedByLargePrograms) {
  const PlannedCall few("softmax", {{DType::f32, {128, 1 << 20}}}, {});
  const Config config = few.variant(kHopper).default_config(few.call(), kHopper);
  EXPECT_EQ(
      config,
      (Config{{"BLOCK_M", 1}, {"BLOCK_N", 4096}, {"TILES", 4}, {"SPLIT", 8}, {"ANYWHERE", 0}, {"num_warps", 16}}));
  const PlannedCall many("softmax", {{DType::f32, {4096, 1 << 16}}}, {});
  EXPECT_EQ(many.variant(kHopper).default_config(many.call(), kHopper).at("SPLIT"), 1);
}

TEST(Normalization, RandomExamplesAreLegal) {
  std::mt19937_64 random(7);
  for (const char* op : kOps) {
    const OpSpec& spec = spec_of(op);
    for (int i = 0; i < 500; ++i) {
      const Example example = spec.random_example(random);
      const PlannedCall call(op, example.inputs, example.attributes);
      EXPECT_LE(call.inputs[0].numel(), 1 << 20);
      for (const Target& target : {kCpu, kHopper}) EXPECT_FALSE(call.plan(target).launches.empty()) << op;
    }
  }
}

TEST(Normalization, AGridThatNoGpuHasIsRefused) {
  const PlannedCall call("softmax", {{DType::f32, {std::int64_t{1} << 40, 2}}}, {});
  const Variant& variant = call.variant(kHopper);
  const Config small{{"BLOCK_M", 16}, {"BLOCK_N", 2}, {"TILES", 1}, {"SPLIT", 1}, {"num_warps", 1}};
  EXPECT_THROW(variant.plan(call.call(), small, kHopper), UsageError);
}

TEST(Normalization, CostCountsEachElementOnce) {
  const PlannedCall call("rms_norm", {{DType::bf16, {8, 10}}, {DType::bf16, {10}}, {DType::bf16, {8, 10}}}, {});
  EXPECT_EQ(call.spec.cost(call.call()).bytes, 2 * (4 * 80 + 10));
  const PlannedCall softmax("softmax", {{DType::bf16, {8, 10}}}, {{"dtype", DType::f32}});
  EXPECT_EQ(softmax.spec.cost(softmax.call()).bytes, 80 * (2 + 4));
}

}  // namespace
}  // namespace kiln::test
