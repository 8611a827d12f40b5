#include <cmath>
#include <set>
#include <sstream>

#include "core/errors.hpp"
#include "ops/elementwise/iteration.hpp"
#include "ops/elementwise/spec.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

KernelLaunch plan_of(std::string_view op, const std::vector<TensorMeta>& inputs, const Attributes& given,
                     const Config& config, const Target& target) {
  return PlannedCall(op, inputs, given).plan(target, config).launches.at(0);
}

TEST(ElementwiseSpecs, HoldTheWholeFamily) {
  std::set<std::string> names;
  for (const OpSpec& spec : elementwise::elementwise_specs())
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name << " twice";
  std::istringstream family(
      "add sub mul div floor_div remainder pow maximum minimum atan2 eq ne lt le gt ge logical_and logical_or "
      "logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift "
      "bitwise_right_shift neg abs sign exp exp2 expm1 log log2 log1p sqrt rsqrt reciprocal sin cos tan tanh "
      "erf sigmoid relu gelu silu leaky_relu elu floor ceil round trunc isnan isinf clamp where cast fill "
      "add_relu mul_add axpby");
  for (std::string op; family >> op;) EXPECT_TRUE(names.contains(op)) << op;
}

TEST(ElementwiseSpecs, EveryPartIsThere) {
  for (const OpSpec& spec : elementwise::elementwise_specs()) {
    EXPECT_FALSE(spec.doc.empty()) << spec.name;
    EXPECT_FALSE(spec.dtypes.empty()) << spec.name;
    EXPECT_FALSE(spec.examples.empty()) << spec.name;
    EXPECT_EQ(spec.outputs.size(), 1U) << spec.name;
    EXPECT_LE(spec.input_ranges.size(), spec.inputs.size()) << spec.name;
    EXPECT_EQ(spec.variants.size(), 3U) << spec.name;
    for (const Variant& variant : spec.variants) {
      EXPECT_EQ(variant.source.path, "ops/elementwise/kernel.hpp");
      EXPECT_FALSE(variant.source.text.empty());
      EXPECT_TRUE(variant.kernel.starts_with("kiln::ops::elementwise_"));
      for (const Target& target : {kCpu, kHopper})
        EXPECT_FALSE(variant.space(target).enumerate().empty()) << spec.name << variant.name;
    }
  }
}

TEST(ElementwiseSpecs, EveryExampleInfersPlansAndHasAValidDefault) {
  for (const OpSpec& spec : elementwise::elementwise_specs())
    for (std::size_t e = 0; e < spec.examples.size(); ++e)
      for (const Target& target : {kCpu, kHopper}) {
        SCOPED_TRACE(spec.name + " example " + std::to_string(e) + " on " + to_string(target));
        const PlannedCall call(spec.name, spec.examples[e].inputs, spec.examples[e].attributes);
        bool served = false;
        for (const Variant& variant : spec.variants) {
          if (!variant.serves(call.call(), target)) continue;
          served = true;
          const Config config = variant.default_config(call.call(), target);
          ASSERT_NO_THROW(variant.space(target).validate(config)) << variant.name << " " << to_string(config);
          const KernelLaunch plan = variant.plan(call.call(), config, target).launches.at(0);
          EXPECT_EQ(plan.geometry.grid[0] == 0, call.outputs[0].numel() == 0);
          EXPECT_GE(plan.vector_width, variant.name == "contiguous" ? 2 : 1);
          for (const TemplateArgument& argument : plan.template_arguments) EXPECT_NO_THROW(spell(argument));
        }
        EXPECT_TRUE(served);
      }
}

TEST(ElementwiseSpecs, DefaultsAreValidForManyShapes) {
  const OpSpec& add = spec_of("add");
  for (const DType dtype : kAllDTypes)
    for (const std::int64_t rows : {1, 2, 3, 17, 256, 4097})
      for (const std::int64_t columns : {1, 2, 3, 5, 31, 64, 100, 1000, 3000, 4096, 1 << 20})
        for (const Target& target : {kCpu, kHopper})
          for (const Dims& other : {Dims{rows, columns}, Dims{columns}, Dims{rows, 1}, Dims{}}) {
            const PlannedCall call("add", std::vector<TensorMeta>{{dtype, {rows, columns}}, {dtype, other}});
            for (const Variant& variant : add.variants) {
              if (!variant.serves(call.call(), target)) continue;
              const Config config = variant.default_config(call.call(), target);
              ASSERT_NO_THROW(variant.space(target).validate(config))
                  << variant.name << " " << name(dtype) << " " << rows << "x" << columns << " " << to_string(config);
            }
          }
}

TEST(ElementwiseSpecs, TemplateArgumentsFollowTheKernels) {
  const std::vector<TensorMeta> pair = {{DType::f16, {8, 100}}, {DType::f16, {8, 100}}};
  const Config block{{"BLOCK_SIZE", 128}};
  KernelLaunch plan = plan_of("add", pair, {}, block, kCpu);
  EXPECT_EQ(spelled(plan),
            "kiln::ops::Add, kiln::tl::float16, 128, 0, kiln::tl::float16, kiln::tl::float16, kiln::tl::float16");
  EXPECT_EQ(plan.geometry.grid[0], 7);
  EXPECT_EQ(plan.vector_width, 8);
  plan = plan_of("add", pair, {{"alpha", 2.0}}, block, kCpu);
  EXPECT_EQ(spell(plan.template_arguments[0]), "kiln::ops::AddAlpha");
  plan = plan_of("sub", {pair[0]}, {{"other", 3.0}, {"alpha", 0.5}}, block, kCpu);
  EXPECT_EQ(spell(plan.template_arguments[0]), "kiln::ops::ScalarRight<kiln::ops::SubAlpha>");
  EXPECT_EQ(plan.template_arguments.size(), 6U);
  plan = plan_of("lt", {{DType::i32, {9}}, {DType::f64, {9}}}, {}, block, kCpu);
  EXPECT_EQ(spelled(plan), "kiln::ops::Lt, double, 128, 0, bool, kiln::tl::int32_t, double");
  EXPECT_EQ(plan.vector_width, 2);
  plan = plan_of("fill", {{DType::i8, {9}}}, {{"value", 1.0}}, block, kCpu);
  EXPECT_EQ(spelled(plan), "kiln::ops::Fill, kiln::tl::int8_t, 128, 0, kiln::tl::int8_t");
  EXPECT_EQ(plan.arguments.size(), 3);
  EXPECT_EQ(plan.vector_width, 16);
  plan = plan_of("floor", {{DType::i32, {9}}}, {}, block, kCpu);
  EXPECT_EQ(spell(plan.template_arguments[0]), "kiln::ops::Cast") << "integers have nothing to round";
  plan = plan_of("clamp", {{DType::f32, {9}}}, {{"min", 1.0}}, block, kCpu);
  EXPECT_EQ(spell(plan.template_arguments[0]), "kiln::ops::ClampMin");
  plan = plan_of("clamp", {{DType::f32, {9}}}, {{"max", 1.0}}, block, kCpu);
  EXPECT_EQ(spell(plan.template_arguments[0]), "kiln::ops::ClampMax");
  plan = plan_of("gelu", {{DType::f32, {9}}}, {{"approximate", std::string("tanh")}}, block, kCpu);
  EXPECT_EQ(spell(plan.template_arguments[0]), "kiln::ops::GeluTanh");
  // A row operand: the output, x and y are all dense along the columns.
  plan = plan_of("add", {{DType::f32, {8, 100}}, {DType::f32, {100}}}, {}, {{"BLOCK_M", 2}, {"BLOCK_N", 64}}, kCpu);
  EXPECT_EQ(spelled(plan), "kiln::ops::Add, float, 2, 64, 0, 21, float, float, float");
  // A column operand: stride 0 along the columns.
  plan = plan_of("add", {{DType::f32, {8, 100}}, {DType::f32, {8, 1}}}, {}, {{"BLOCK_M", 2}, {"BLOCK_N", 64}}, kCpu);
  EXPECT_EQ(spell(plan.template_arguments[5]), "5");
  EXPECT_EQ(plan.geometry.grid[0], 2) << "a program goes through the tiles of all rows, 64 columns wide";
  plan = plan_of("add", {{DType::f32, {1 << 10, 1 << 10}}, {DType::f32, {1 << 10, 1}}}, {},
                 {{"BLOCK_M", 1}, {"BLOCK_N", 64}}, kCpu);
  EXPECT_EQ(plan.geometry.grid[0], 1 << 7);
}

TEST(ElementwiseSpecs, OnlyLargeCpuCallsStreamTheirOutput) {
  const auto config_of = [](std::int64_t elements, const Target& target) {
    return PlannedCall("add", std::vector<TensorMeta>{{DType::f32, {elements}}, {DType::f32, {elements}}})
        .config(target);
  };
  EXPECT_EQ(config_of(1 << 20, kCpu).at("STREAM"), 0) << "12 MB stay in the cache";
  EXPECT_EQ(config_of(1 << 26, kCpu).at("STREAM"), 1);
  EXPECT_EQ(config_of(1 << 26, kHopper).find("STREAM"), nullptr);
}

TEST(ElementwiseSpecs, GpuProgramsHaveFourWarpsOfFewLoads) {
  const auto config_of = [](std::string_view op, DType dtype, std::int64_t elements) {
    return to_string(
        PlannedCall(op, std::vector<TensorMeta>(spec_of(op).inputs.size(), {dtype, {elements}})).config(kHopper));
  };
  for (const std::int64_t elements : {1, 1000, 1 << 20, 1 << 28}) {
    EXPECT_EQ(config_of("add", DType::f64, elements), "BLOCK_SIZE=256 num_warps=4");
    EXPECT_EQ(config_of("add", DType::f32, elements), "BLOCK_SIZE=512 num_warps=4");
    // Two accesses of one input, where there are programs enough; else an element, whose code is long.
    EXPECT_EQ(config_of("exp", DType::f32, elements),
              elements < 100'000 ? "BLOCK_SIZE=128 num_warps=4" : "BLOCK_SIZE=1024 num_warps=4");
    EXPECT_EQ(config_of("add", DType::bf16, elements), "BLOCK_SIZE=1024 num_warps=4");
    EXPECT_EQ(config_of("add", DType::i8, elements), "BLOCK_SIZE=2048 num_warps=4");
  }
}

TEST(ElementwiseSpecs, GeluOfNarrowResultsHasAFunctorOfItsOwnOnAGpu) {
  const auto functor_of = [](DType dtype, const Attributes& attributes, const Target& target) {
    const Config config =
        target.type == DeviceType::cuda ? Config{{"BLOCK_SIZE", 1024}, {"num_warps", 4}} : Config{{"BLOCK_SIZE", 128}};
    return spell(plan_of("gelu", {{dtype, {4096}}}, attributes, config, target).template_arguments[0]);
  };
  EXPECT_EQ(functor_of(DType::bf16, {}, kHopper), "kiln::ops::GeluNarrow");
  EXPECT_EQ(functor_of(DType::f16, {}, kHopper), "kiln::ops::GeluNarrow");
  EXPECT_EQ(functor_of(DType::f32, {}, kHopper), "kiln::ops::Gelu");
  EXPECT_EQ(functor_of(DType::f64, {}, kHopper), "kiln::ops::Gelu");
  EXPECT_EQ(functor_of(DType::bf16, {}, kCpu), "kiln::ops::Gelu");
  EXPECT_EQ(functor_of(DType::bf16, {{"approximate", std::string("tanh")}}, kHopper), "kiln::ops::GeluTanh");
}

TEST(ElementwiseSpecs, ScalarsReachTheKernel) {
  KernelLaunch plan = plan_of("axpby", {{DType::i32, {9}}, {DType::i32, {9}}}, {{"alpha", 3.0}, {"beta", -2.0}},
                              {{"BLOCK_SIZE", 128}}, kCpu);
  void* tensors[3] = {};
  void* parameters[5];
  plan.arguments.bind(tensors, parameters);
  EXPECT_EQ(*static_cast<long long*>(parameters[1]), 9);
  const auto& scalars = *static_cast<ops::Scalars*>(parameters[4]);
  EXPECT_EQ(scalars.f[0], 3);
  EXPECT_EQ(scalars.i[0], 3);
  EXPECT_EQ(scalars.f[1], -2);
  EXPECT_EQ(scalars.i[1], -2);
}

TEST(ElementwiseSpecs, AGridThatNoGpuHasIsRefused) {
  const std::int64_t elements = std::int64_t{1} << 42;
  const std::vector<TensorMeta> huge = {{DType::i8, {elements}}};
  EXPECT_THROW(plan_of("neg", huge, {}, {{"BLOCK_SIZE", 256}, {"num_warps", 4}}, kHopper), UsageError);
  EXPECT_EQ(plan_of("neg", huge, {}, {{"BLOCK_SIZE", 8192}, {"num_warps", 4}}, kHopper).geometry.grid[0],
            elements / 8192);
  EXPECT_EQ(plan_of("neg", huge, {}, {{"BLOCK_SIZE", 256}}, kCpu).geometry.grid[0], elements / 256);
}

TEST(ElementwiseSpecs, CostCountsBroadcastOperandsOnce) {
  const OpSpec& add = spec_of("add");
  const PlannedCall call("add", std::vector<TensorMeta>{{DType::f32, {100, 50}}, {DType::f16, {50}}});
  EXPECT_EQ(add.cost(call.call()).bytes, 100 * 50 * 4 + 50 * 2 + 100 * 50 * 4);
  EXPECT_EQ(add.cost(call.call()).flops, 100 * 50);
  PlannedCall expanded("add", std::vector<TensorMeta>{{DType::f32, {100, 50}}, {DType::f32, {100, 50}}});
  expanded.inputs[1].strides = {0, 1};
  EXPECT_EQ(add.cost(expanded.call()).bytes, 100 * 50 * 4 + 50 * 4 + 100 * 50 * 4);
  const OpSpec& fill = spec_of("fill");
  EXPECT_EQ(fill.cost(PlannedCall("fill", std::vector<TensorMeta>{{DType::f32, {10}}}, {{"value", 1.0}}).call()).bytes,
            40)
      << "fill does not read x";
}

TEST(ElementwiseSpecs, TolerancesAreZeroForIntegersAndOneUnitForNarrowFloats) {
  for (const OpSpec& spec : elementwise::elementwise_specs()) {
    EXPECT_EQ(spec.tolerance(DType::i32).relative, 0) << spec.name;
    EXPECT_EQ(spec.tolerance(DType::bool_).absolute, 0) << spec.name;
    EXPECT_GE(spec.tolerance(DType::f16).relative, std::exp2(-10)) << spec.name;
    EXPECT_LT(spec.tolerance(DType::f16).relative, std::exp2(-9)) << spec.name;
    EXPECT_LT(spec.tolerance(DType::f32).relative, 1e-5) << spec.name;
    EXPECT_GT(spec.tolerance(DType::f32).relative, 1e-7) << spec.name;
  }
}

}  // namespace
}  // namespace kiln::test
