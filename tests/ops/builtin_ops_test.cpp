// What every built-in op's spec must hold, whatever its family.

#include "ops/builtin_ops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>
#include <sstream>

#include "core/errors.hpp"
#include "ops/common/random_shape.hpp"
#include "tests/support/host_tensor.hpp"
#include "tests/support/layout.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

const Target kTargets[] = {{DeviceType::cpu, "x86-64", ""},
                           {DeviceType::cpu, "x86-64-v4", "+avx2,+avx512f"},
                           parse_cuda_target("sm_90a"),
                           parse_cuda_target("sm_80")};

/// Of a tensor: nothing is allocated.
constexpr std::int64_t kMostElements = std::int64_t{1} << 30;

/// Whether some variant serves the call, with a valid default config and a plan that can be launched; `layouts` are
/// those of its inputs, dense where there are none. False where the op refuses the call, or its outputs are too large.
bool check_plans(const OpSpec& spec, const Example& example, std::span<const Layout> layouts = {},
                 std::int64_t processors = 0) {
  const Attributes attributes = with_defaults(spec, example.attributes);
  std::vector<TensorView> inputs, outputs;
  for (const Target& target : kTargets) {
    const Device device = target.type == DeviceType::cuda ? Device::cuda(0) : Device::cpu();
    inputs.clear();
    outputs.clear();
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < example.inputs.size(); ++i) {
      const TensorMeta& meta = example.inputs[i];
      inputs.push_back(meta.absent ? TensorView{} : dense_view(nullptr, meta.dtype, meta.shape, device));
      if (layouts.empty() || meta.absent) continue;
      inputs.back().strides = layouts[i].strides;
      // Nothing reads there; whether it is a multiple of 16 bytes counts.
      inputs.back().data = reinterpret_cast<void*>(4096 + layouts[i].offset_elements * itemsize_bytes(meta.dtype));
    }
    try {
      for (const TensorMeta& meta : spec.infer(inputs, attributes)) {
        outputs.push_back(dense_view(nullptr, meta.dtype, meta.shape, device));
        elements += outputs.back().numel();
      }
    } catch (const UsageError&) {
      return false;
    }
    if (elements > kMostElements) return false;
    if (elements == 0) continue;  // nothing is planned then
    const OpCall call{inputs, outputs, attributes, processors};
    bool served = false;
    for (const Variant& variant : spec.variants) {
      if (!variant.serves(call, target)) continue;
      served = true;
      const Config config = variant.default_config(call, target);
      SCOPED_TRACE(variant.name + " " + to_string(config) + " on " + to_string(target));
      EXPECT_NO_THROW(variant.space(target).validate(config));
      LaunchPlan plan;
      EXPECT_NO_THROW(plan = variant.plan(call, config, target));
      EXPECT_FALSE(plan.launches.empty());
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
  return true;
}

std::string described(const OpSpec& spec, const Example& example, std::span<const Layout> layouts = {}) {
  std::ostringstream call;
  call << spec.name;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    call << " " << name(example.inputs[i].dtype) << to_string(example.inputs[i].shape);
    if (!layouts.empty()) call << " strides " << to_string(layouts[i].strides);
  }
  for (const auto& [key, value] : example.attributes.entries()) call << " " << key << "=" << to_string(value);
  return call.str();
}

/// As many elements as there are of sizes on a logarithmic scale, up to 2^`bits`.
std::int64_t random_extent(unsigned bits, std::mt19937_64& random) {
  const double scale = std::ldexp(static_cast<double>(random() >> 11), -53);
  return static_cast<std::int64_t>(std::exp2(scale * bits));
}

/// The call with other extents: each of its extents becomes another one, wherever it stands, so that what must agree
/// does. Ops that make no calls of their own take any shape.
Example resized(const OpSpec& spec, std::mt19937_64& random) {
  Example example = spec.random_example ? spec.random_example(random) : common::one_of(spec.examples, random);
  const Dims shape = common::random_shape({.most_rank = 4}, random);
  std::map<std::int64_t, std::int64_t> extents;
  const auto bits = static_cast<unsigned>(4 + random() % 20);
  for (TensorMeta& meta : example.inputs) {
    if (!spec.random_example) meta.shape = shape;
    std::int64_t left = kMostElements;
    for (int axis = 0; axis < meta.shape.size(); ++axis) {
      std::int64_t& extent = meta.shape[axis];
      const auto found = extents.try_emplace(extent, random_extent(bits, random)).first;
      if (!spec.random_example && extents.size() > 1 && random() % 8 == 0)
        extent = 1;
      else
        extent = std::min(found->second, std::max<std::int64_t>(left, 1));
      left /= std::max<std::int64_t>(extent, 1);
    }
  }
  return example;
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
      EXPECT_TRUE(check_plans(spec, spec.examples[e]));
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
      SCOPED_TRACE(described(spec, example));
      EXPECT_TRUE(check_plans(spec, example));
    }
  }
  EXPECT_GE(ops, 30);
}

/// Sizes that models and data have, which are too large to be computed in a test.
TEST(BuiltinOps, CallsOfAnySizePlan) {
  const std::uint64_t seed = sweep_seed();
  std::mt19937_64 random(seed);
  const int calls = sweep_amount() == SweepAmount::part ? 60 : 600;
  int planned = 0;
  for (const OpSpec& spec : builtin_ops())
    for (int i = 0; i < calls; ++i) {
      const Example example = resized(spec, random);
      std::vector<Layout> layouts;
      const bool is_dense = random() % 2 == 0;
      for (const TensorMeta& meta : example.inputs)
        layouts.push_back(is_dense ? dense_layout(meta.shape) : random_layout(meta.shape, false, random));
      SCOPED_TRACE(described(spec, example, layouts) + ", seed " + std::to_string(seed));
      planned += check_plans(spec, example, layouts, random() % 2 == 0 ? 0 : 132) ? 1 : 0;
    }
  EXPECT_GE(planned, calls * 40);
}

}  // namespace
}  // namespace kiln::test
