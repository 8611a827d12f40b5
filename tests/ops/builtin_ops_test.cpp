// What every built-in op's spec must hold, whatever its family.

#include "ops/builtin_ops.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>

#include "tests/support/host_tensor.hpp"

namespace kiln::test {
namespace {

const Target kTargets[] = {{DeviceType::cpu, "x86-64", ""}, parse_cuda_target("sm_90a")};

/// Whether some variant serves the call, with a valid default config and a plan that can be launched.
void check_plans(const OpSpec& spec, const Example& example) {
  const Attributes attributes = with_defaults(spec, example.attributes);
  std::vector<TensorView> inputs, outputs;
  for (const Target& target : kTargets) {
    const Device device = target.type == DeviceType::cuda ? Device::cuda(0) : Device::cpu();
    inputs.clear();
    outputs.clear();
    std::int64_t elements = 0;
    for (const TensorMeta& meta : example.inputs)
      inputs.push_back(meta.absent ? TensorView{} : dense_view(nullptr, meta.dtype, meta.shape, device));
    for (const TensorMeta& meta : spec.infer(inputs, attributes)) {
      outputs.push_back(dense_view(nullptr, meta.dtype, meta.shape, device));
      elements += outputs.back().numel();
    }
    if (elements == 0) continue;  // nothing is planned then
    const OpCall call{inputs, outputs, attributes};
    bool served = false;
    for (const Variant& variant : spec.variants) {
      if (!variant.serves(call, target)) continue;
      served = true;
      const Config config = variant.default_config(call, target);
      SCOPED_TRACE(variant.name + " " + to_string(config) + " on " + to_string(target));
      ASSERT_NO_THROW(variant.space(target).validate(config));
      const LaunchPlan plan = variant.plan(call, config, target);
      ASSERT_FALSE(plan.launches.empty());
      EXPECT_LE(plan.workspace_bytes.size(), static_cast<std::size_t>(kMaxWorkspaces));
      for (const std::int64_t bytes : plan.workspace_bytes) EXPECT_GT(bytes, 0);
      for (const KernelLaunch& launch : plan.launches) {
        EXPECT_GT(launch.arguments.size(), 0);
        EXPECT_LE(launch.arguments.size(), kMaxArguments);
        for (const TemplateArgument& argument : launch.template_arguments) EXPECT_NO_THROW(spell(argument));
        EXPECT_TRUE(launch.kernel.empty() || launch.kernel.starts_with("kiln::ops::")) << launch.kernel;
      }
    }
    EXPECT_TRUE(served) << to_string(target);
    EXPECT_GE(spec.cost(call).bytes, 0);
  }
}

TEST(BuiltinOps, NamesAreDistinctAndPartsAreThere) {
  std::set<std::string> names;
  for (const OpSpec& spec : builtin_ops()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name << " twice";
    EXPECT_FALSE(spec.doc.empty()) << spec.name;
    EXPECT_FALSE(spec.examples.empty()) << spec.name;
    EXPECT_TRUE(spec.reference) << spec.name;
    EXPECT_TRUE(spec.tolerance) << spec.name;
    EXPECT_TRUE(spec.cost) << spec.name;
    EXPECT_FALSE(spec.dtypes.empty()) << spec.name;
    EXPECT_LE(spec.input_ranges.size(), spec.inputs.size()) << spec.name;
    for (const Variant& variant : spec.variants) {
      EXPECT_TRUE(variant.source.path.starts_with("ops/")) << spec.name;
      EXPECT_FALSE(variant.source.text.empty()) << spec.name;
      EXPECT_FALSE(variant.doc.empty()) << spec.name << " " << variant.name;
    }
  }
}

TEST(BuiltinOps, ExamplesInferAndPlan) {
  for (const OpSpec& spec : builtin_ops())
    for (std::size_t e = 0; e < spec.examples.size(); ++e) {
      SCOPED_TRACE(spec.name + " example " + std::to_string(e));
      check_plans(spec, spec.examples[e]);
    }
}

TEST(BuiltinOps, RandomCallsInferAndPlan) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int ops = 0;
  for (const OpSpec& spec : builtin_ops()) {
    if (!spec.random_example) continue;
    ++ops;
    for (int i = 0; i < 200; ++i) {
      const Example example = spec.random_example(random);
      std::ostringstream call;
      call << spec.name;
      for (const TensorMeta& meta : example.inputs) call << " " << name(meta.dtype) << to_string(meta.shape);
      for (const auto& [key, value] : example.attributes.entries()) call << " " << key << "=" << to_string(value);
      SCOPED_TRACE(call.str());
      check_plans(spec, example);
    }
  }
  EXPECT_GE(ops, 30);
}

}  // namespace
}  // namespace kiln::test
