#include "registry/user_ops/user_op.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/errors.hpp"
#include "core/input_file.hpp"
#include "registry/plan/registry.hpp"

namespace kiln {
namespace {

std::vector<TensorMeta> infer_like_first(const std::string& op, const std::vector<InputSpec>& specs,
                                         std::span<const TensorView> inputs) {
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].dtype != inputs[0].dtype)
      throw_type_error("op '" + op + "': input '" + specs[i].name + "' is " + std::string(name(inputs[i].dtype)) +
                       ", but input '" + specs[0].name + "' is " + std::string(name(inputs[0].dtype)) +
                       "; all inputs share one dtype");
    if (inputs[i].shape != inputs[0].shape)
      throw_value_error("op '" + op + "': input '" + specs[i].name + "' has shape " + to_string(inputs[i].shape) +
                        ", but input '" + specs[0].name + "' has " + to_string(inputs[0].shape) +
                        "; all inputs share one shape");
  }
  return {{inputs[0].dtype, inputs[0].shape}};
}

bool all_contiguous(const OpCall& call) {
  const auto contiguous = [](const TensorView& view) { return view.is_contiguous(); };
  return std::all_of(call.inputs.begin(), call.inputs.end(), contiguous) &&
         std::all_of(call.outputs.begin(), call.outputs.end(), contiguous);
}

ConfigSpace config_space(const Target& target) {
  if (target.type == DeviceType::cpu) return ConfigSpace({{"BLOCK_SIZE", {128, 64, 256}}}, {});
  return ConfigSpace({{"BLOCK_SIZE", {1024, 512, 256, 2048, 4096}}, {"num_warps", {4, 2, 8, 1, 16}}},
                     {{"BLOCK_SIZE >= 32 * num_warps",
                       [](const Config& config) { return config.at("BLOCK_SIZE") >= 32 * config.at("num_warps"); }}});
}

Config default_config(const Target& target) {
  // CPU: tiles of 64 to 256 elements stay in vector registers. CUDA: eight elements a thread keep two to four 16-byte
  // accesses in flight.
  return target.type == DeviceType::cpu ? Config{{"BLOCK_SIZE", 128}} : Config{{"BLOCK_SIZE", 1024}, {"num_warps", 4}};
}

LaunchPlan plan_launch(const OpCall& call, const Config& config) {
  KernelLaunch launch;
  const std::int64_t n = call.outputs[0].numel();
  const std::int64_t block_size = config.at("BLOCK_SIZE");
  const std::int64_t* num_warps = config.find("num_warps");
  launch.template_arguments = {call.inputs[0].dtype, block_size};
  launch.geometry.grid[0] = n / block_size + (n % block_size != 0 ? 1 : 0);
  if (num_warps != nullptr) launch.geometry.num_warps = static_cast<std::int32_t>(*num_warps);
  const int num_inputs = static_cast<int>(call.inputs.size());
  for (int i = 0; i < num_inputs; ++i) launch.arguments.add_tensor(1 + i);
  launch.arguments.add_tensor(0);
  launch.arguments.add_value(n);
  return {{std::move(launch)}, {}};
}

/// nullopt for what is no file that can be read, or is larger than any source.
std::optional<std::string> read_text(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  try {
    return read_input_file(path, kMostSourceBytes);
  } catch (const SystemError&) {
    return std::nullopt;
  }
}

}  // namespace

void register_elementwise_kernel(const ElementwiseKernel& kernel) {
  constexpr int kMostInputs = kMaxTensors - 1;  // beside the output
  if (kernel.num_inputs < 1 || kernel.num_inputs > kMostInputs)
    throw_value_error("op '" + kernel.name + "': num_inputs is " + std::to_string(kernel.num_inputs) +
                      "; it must be 1 to " + std::to_string(kMostInputs));
  OpSpec spec;
  spec.name = kernel.name;
  spec.doc = kernel.doc;
  for (int i = 0; i < kernel.num_inputs; ++i) spec.inputs.push_back({"in" + std::to_string(i), "", false});
  spec.outputs = {{"out", ""}};
  spec.dtypes = kernel.dtypes;
  spec.aliasing = Aliasing::elementwise;
  spec.infer = [op = kernel.name, inputs = spec.inputs](std::span<const TensorView> views, const Attributes&) {
    return infer_like_first(op, inputs, views);
  };
  Variant variant;
  variant.name = "contiguous";
  variant.doc = "dense tensors, one program per BLOCK_SIZE elements";
  variant.source = kernel.source;
  variant.kernel = kernel.kernel;
  variant.serves = [](const OpCall& call, const Target&) { return all_contiguous(call); };
  variant.space = config_space;
  variant.default_config = [](const OpCall&, const Target& target) { return default_config(target); };
  variant.plan = [](const OpCall& call, const Config& config, const Target&) { return plan_launch(call, config); };
  spec.variants.push_back(std::move(variant));
  spec.cost = [](const OpCall& call) {
    const auto tensors = static_cast<double>(call.inputs.size() + call.outputs.size());
    return Cost{0, tensors * static_cast<double>(call.outputs[0].numel() * itemsize_bytes(call.outputs[0].dtype))};
  };
  Registry::process().register_op(std::move(spec));
}

KernelSource read_kernel_source(const std::string& path) {
  KernelSource source{path, read_text(path).value_or(std::string()), {}};
  if (source.text.empty()) throw_value_error("the kernel file '" + path + "' cannot be read, or is empty");
  std::set<std::string> seen{path};
  const auto add_headers = [&](const std::string& includer, const std::string& text) {
    for (const std::string& include : quoted_includes(text)) {
      const std::string header =
          (std::filesystem::path(includer).parent_path() / include).lexically_normal().generic_string();
      if (!seen.insert(header).second) continue;
      if (std::optional<std::string> found = read_text(header))  // others are Kiln's own, or the compiler reports them
        source.headers.push_back({header, std::move(*found), {}});
    }
  };
  add_headers(path, source.text);
  for (std::size_t i = 0; i < source.headers.size(); ++i) {
    const KernelSource header = source.headers[i];
    add_headers(header.path, header.text);
  }
  return source;
}

}  // namespace kiln
