#include "registry/plan.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "compiler/compiler.hpp"
#include "core/errors.hpp"
#include "registry/kernel_cache.hpp"
#include "runtime/device_info.hpp"
#ifdef KILN_HAS_CUDA
#include "compiler/nvrtc_compiler.hpp"
#endif

namespace kiln {
namespace {

/// Which loaded kernel a choice needs. A registered variant never changes, so its address stands for its source.
ContentHash kernel_key(const Choice& choice, const std::string& instance, Device device) {
  return ContentHasher()
      .field(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(choice.variant)))
      .field(instance)
      .field(choice.request.num_warps)
      .field(choice.request.vector_width)
      .field(to_string(device))
      .digest();
}

}  // namespace

Choice choose(const OpSpec& spec, const OpCall& call, const Target& target, const Config* given) {
  Choice choice;
  const auto serving = std::find_if(spec.variants.begin(), spec.variants.end(),
                                    [&](const Variant& variant) { return variant.serves(call, target); });
  if (serving == spec.variants.end()) {
    std::string tensors;
    for (const TensorView& view : call.inputs) tensors += (tensors.empty() ? "" : "; ") + describe(view);
    throw_not_implemented("op '" + spec.name + "' has no kernel that serves this call on " + to_string(target) + ": " +
                          tensors + " (try contiguous tensors)");
  }
  choice.variant = &*serving;
  choice.config_given = given != nullptr;
  if (given != nullptr) {
    serving->space(target).validate(*given);
    choice.config = *given;
  } else {
    choice.config = serving->default_config(call, target);
  }
  choice.launch = serving->plan(call, choice.config, target);
  choice.request = {.op = spec.name,
                    .configuration = to_string(choice.config),
                    .source = serving->source,
                    .kernel = serving->kernel,
                    .template_arguments = choice.launch.template_arguments,
                    .num_parameters = choice.launch.arguments.size(),
                    .num_warps = choice.launch.geometry.num_warps,
                    .vector_width = choice.launch.vector_width,
                    .target = target};
  return choice;
}

Target target_of(Device device) {
  if (!device.is_cuda()) return host_cpu_target();
  const DeviceInfo& info = device_info(device);
  Target target = info.target;
#ifdef KILN_HAS_CUDA
  // The compiler knows no driver and the runtime no compiler, so the decision falls here. Without NVRTC the compile
  // itself says what is missing.
  if (compiler_problem(DeviceType::cuda).empty() && needs_ptx(info.driver_version, nvrtc_version()))
    target.features = "ptx";
#endif
  return target;
}

std::shared_ptr<const Plan> build_plan(const OpSpec& spec, const OpCall& call, std::span<const TensorMeta> outputs,
                                       const Target& target, Device device, const Config* given) {
  auto plan = std::make_shared<Plan>();
  plan->spec = &spec;
  plan->device = device;
  plan->outputs.assign(outputs.begin(), outputs.end());
  const auto add_tensor = [&](const TensorView& view) {
    plan->tensors.push_back({view.dtype, view.shape, view.strides});
    plan->extents.push_back(memory_extent(view));
  };
  std::for_each(call.outputs.begin(), call.outputs.end(), add_tensor);
  std::for_each(call.inputs.begin(), call.inputs.end(), add_tensor);
  if (spec.cost) plan->report.cost = spec.cost(call);
  if (std::all_of(plan->extents.begin(), plan->extents.begin() + plan->num_outputs(),
                  [](const MemoryExtent& extent) { return extent.empty(); })) {
    plan->report.config_source = "none: every output is empty";
    return plan;
  }

  Choice choice = choose(spec, call, target, given);
  if (choice.launch.arguments.size() > kMaxArguments)
    throw InternalError("variant '" + choice.variant->name + "' of op '" + spec.name + "' has " +
                        std::to_string(choice.launch.arguments.size()) + " kernel parameters; at most " +
                        std::to_string(kMaxArguments) + " are supported");
  plan->report.variant = choice.variant->name;
  plan->report.config = choice.config;
  plan->report.config_source = choice.config_given ? "given" : "default";
  plan->report.kernel = instance_name(choice.request);
  plan->loaded = KernelCache::process().get(kernel_key(choice, plan->report.kernel, device), [&] {
    const ArtifactCache::Found found = ArtifactCache::process().get(choice.request, compiler_for(device.type));
    plan->report.artifact_origin = found.origin;
    plan->report.artifact_us = found.elapsed_us;
    const auto start = std::chrono::steady_clock::now();
    LoadedKernel loaded{load_kernel(*found.artifact, device), found.key.hex()};
    plan->report.load_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
    return loaded;
  });
  plan->report.artifact_key = plan->loaded->artifact_key;
  plan->geometry = choice.launch.geometry;
  plan->arguments = std::move(choice.launch.arguments);
  return plan;
}

void launch(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  if (plan.loaded == nullptr) return;
  std::array<void*, kMaxArguments> data;
  std::array<void*, kMaxArguments> parameters;
  for (std::size_t i = 0; i < tensors.size(); ++i) data[i] = tensors[i]->data;
  plan.arguments.bind(data.data(), parameters.data());
  plan.loaded->kernel->launch(plan.geometry, parameters.data(), stream);
}

}  // namespace kiln
