#include "benchmarks/read_op.hpp"

#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_op.hpp"

using namespace kiln;

void register_read_op(const std::string& path) {
  OpSpec spec;
  spec.name = "benchmark_read";
  spec.doc = "reads x";
  spec.inputs = {{"x", ""}};
  spec.outputs = {{"out", ""}};
  spec.dtypes = {DType::f32};
  spec.infer = [](std::span<const TensorView>, const Attributes&) {
    return std::vector<TensorMeta>{{DType::f32, {1}}};
  };
  Variant variant;
  variant.name = "read";
  variant.source = read_kernel_source(path);
  variant.kernel = "kiln::benchmark::read_kernel";
  variant.serves = [](const OpCall& call, const Target&) { return call.inputs[0].is_contiguous(); };
  variant.space = [](const Target&) {
    return ConfigSpace{{{"BLOCK_SIZE", {4096, 2048, 8192}}, {"STEPS", {4, 1, 2, 8, 16}}, {"num_warps", {4, 8, 16}}},
                       {}};
  };
  variant.default_config = [](const OpCall&, const Target&) {
    return Config{{"BLOCK_SIZE", 4096}, {"STEPS", 4}, {"num_warps", 4}};
  };
  variant.plan = [](const OpCall& call, const Config& config, const Target&) {
    const std::int64_t n = call.inputs[0].numel(), per_program = config.at("BLOCK_SIZE") * config.at("STEPS");
    KernelLaunch launch;
    launch.template_arguments = {config.at("BLOCK_SIZE"), config.at("STEPS")};
    launch.geometry.grid[0] = (n + per_program - 1) / per_program;
    launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
    launch.vector_width = 4;
    launch.arguments.add_tensor(1);
    launch.arguments.add_tensor(0);
    launch.arguments.add_value(n);
    return LaunchPlan{{std::move(launch)}, {}};
  };
  spec.variants.push_back(std::move(variant));
  Registry::process().register_op(std::move(spec));
}
