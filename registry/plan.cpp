#include "registry/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "compiler/compiler.hpp"
#include "core/errors.hpp"
#include "registry/kernel_cache.hpp"
#include "registry/plan_steps.hpp"
#include "registry/profiled_call.hpp"
#include "registry/validation.hpp"
#include "runtime/device_info.hpp"
#include "runtime/host_memory.hpp"
#ifdef KILN_HAS_CUDA
#include "compiler/nvrtc_compiler.hpp"
#endif

namespace kiln {
namespace {

constexpr std::int64_t kWorkspaceAlignmentBytes = 256;

/// Which loaded kernel a request needs. A registered variant never changes, so its address stands for its source.
ContentHash kernel_key(const Variant& variant, const CompileRequest& request, const std::string& instance,
                       Device device) {
  return ContentHasher()
      .field(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&variant)))
      .field(instance)
      .field(request.num_warps)
      .field(request.vector_width)
      .field(std::int64_t{request.overlaps_previous})
      .field(to_string(device))
      .digest();
}

void check_limits(const OpSpec& spec, const Choice& choice) {
  const std::string variant = "variant '" + choice.variant->name + "' of op '" + spec.name + "' ";
  if (choice.plan.workspace_bytes.size() > kMaxWorkspaces)
    throw InternalError(variant + "needs " + std::to_string(choice.plan.workspace_bytes.size()) +
                        " workspaces; at most " + std::to_string(kMaxWorkspaces) + " are supported");
  if (choice.plan.launches.empty()) throw InternalError(variant + "launches nothing");
  if (const auto& check = choice.plan.check;
      check.has_value() && (check->after_launches >= choice.plan.launches.size() || check->workspace < 0 ||
                            static_cast<std::size_t>(check->workspace) >= choice.plan.workspace_bytes.size()))
    throw InternalError(variant + "checks a workspace that it does not have, or after its last launch");
}

bool writes_nothing(const Plan& plan) {
  const auto outputs = static_cast<std::size_t>(plan.num_outputs());
  for (std::size_t i = 0; i < plan.extents.size(); ++i)
    if ((i < outputs || input_spec(*plan.spec, i - outputs).mutated) && !plan.extents[i].empty()) return false;
  return true;
}

[[noreturn]] void refuse_loading(const std::string& op) {
  throw_value_error("op '" + op +
                    "' is not compiled and loaded yet for this call, and that cannot happen while the stream is being "
                    "captured: give the call to kiln::warm_up, or make it once, before the capture");
}

/// Compiles and loads one kernel, or finds it loaded. `data` are the pointers of the call the plan is made for.
Plan::Step make_step(const Choice& choice, std::size_t index, Device device, const CallPointers& data,
                     PlanReport::Kernel& report, Loading loading) {
  const CompileRequest& request = choice.requests[index];
  const KernelLaunch& launch = choice.plan.launches[index];
  report.name = instance_name(request);
  // Whoever waits for another thread's compile waits in here, and loads what comes of it.
  std::optional<ProfiledPhase> loading_phase(std::in_place, ProfilePhase::load, request.op, report.name);
  const auto load = [&] {
    if (loading == Loading::refused) refuse_loading(request.op);
    std::optional<ProfiledPhase> phase(std::in_place, ProfilePhase::compile, request.op, report.name);
    const ArtifactCache::Found found = ArtifactCache::process().get(request, compiler_for(device.type));
    if (found.origin != ArtifactCache::Origin::compiled) phase->turned_out(ProfilePhase::load);
    report.artifact_origin = found.origin;
    report.artifact_us = found.elapsed_us;
    phase.reset();
    const auto start = std::chrono::steady_clock::now();
    LoadedKernel kernel{load_kernel(*found.artifact, device), found.key.hex()};
    report.load_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
    return kernel;
  };
  auto loaded = loading == Loading::anew
                    ? std::make_shared<const LoadedKernel>(load())
                    : KernelCache::process().get(kernel_key(*choice.variant, request, report.name, device), load);
  loading_phase.reset();
  report.artifact_key = loaded->artifact_key;
  report.overlaps_previous = request.overlaps_previous;
  LaunchGeometry geometry = launch.geometry;
  geometry.overlaps_previous = request.overlaps_previous;
  return {std::move(loaded), geometry, launch.arguments,
          TensorMapSet(launch.arguments.tensor_maps(), data.data(), device)};
}

/// Compiles and loads what `choice` launches, and adds it to a plan that has no steps yet.
void add_steps(Plan& plan, const Choice& choice, const OpCall& call, Loading loading) {
  check_limits(*plan.spec, choice);
  plan.report.variant = choice.variant->name;
  plan.report.config = choice.config;
  plan.report.config_source = choice.config_source;
  CallPointers data{};
  for (std::size_t i = 0; i < call.outputs.size(); ++i) data[i] = call.outputs[i].data;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) data[call.outputs.size() + i] = call.inputs[i].data;
  for (std::size_t i = 0; i < choice.plan.launches.size(); ++i) {
    plan.steps.push_back(make_step(choice, i, plan.device, data, plan.report.kernels.emplace_back(), loading));
    for (const auto& slot : choice.plan.launches[i].arguments.tensor_maps())
      if (slot.pointer_index < kMaxTensors)
        plan.extents.at(static_cast<std::size_t>(slot.pointer_index)).alignment_bytes = kTensorMapAlignmentBytes;
  }
  for (const std::int64_t bytes : choice.plan.workspace_bytes) {
    plan.workspace_offsets_bytes.push_back(plan.workspace_bytes);
    plan.workspace_bytes +=
        (bytes + kWorkspaceAlignmentBytes - 1) / kWorkspaceAlignmentBytes * kWorkspaceAlignmentBytes;
  }
  plan.check = choice.plan.check;
}

/// Where the GPU finds a tensor in host memory; an error names the tensor.
void* host_pointer(const Plan& plan, std::size_t tensor, const TensorView& view) {
  try {
    return device_pointer(view, plan.device);
  } catch (const UsageError& error) {
    throw UsageError(error.kind(), "op '" + plan.spec->name + "': " +
                                       tensor_label(*plan.spec, tensor, plan.outputs.size()) + ": " + error.what());
  }
}

/// Brings the check's workspace to the host and asks for the verdict.
void run_check(const Plan& plan, const CallPointers& data, Stream stream) {
  const auto workspace = static_cast<std::size_t>(plan.check->workspace);
  const std::int64_t end_bytes = workspace + 1 < plan.workspace_offsets_bytes.size()
                                     ? plan.workspace_offsets_bytes[workspace + 1]
                                     : plan.workspace_bytes;
  const Dims shape{end_bytes - plan.workspace_offsets_bytes[workspace]};
  std::vector<std::byte> bytes(static_cast<std::size_t>(shape[0]));
  copy(dense_view(bytes.data(), DType::u8, shape),
       dense_view(data[kMaxTensors + workspace], DType::u8, shape, plan.device), stream);
  synchronize(stream);
  plan.check->verdict(bytes);
}

}  // namespace

Choice choose(const OpSpec& spec, const OpCall& call, const Target& target, const Config* given,
              const TunedLookup& tuned, bool overlap_previous) {
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
  choice.config = serving->default_config(call, target);
  choice.config_source = "default";
  if (given != nullptr) {
    choice.config_source = "given";
    for (const auto& [tunable, value] : given->entries()) choice.config.set(tunable, value);
    serving->space(target).validate(choice.config);
  } else if (tuned) {
    if (std::optional<TunedConfig> found = tuned(*serving)) {
      choice.config = std::move(found->config);
      choice.config_source = std::move(found->source);
    }
  }
  choice.plan = serving->plan(call, choice.config, target);
  const bool overlaps = overlap_previous && serving->waits_for_previous && can_overlap_previous(target);
  for (const KernelLaunch& launch : choice.plan.launches)
    choice.requests.push_back({.op = spec.name,
                               .configuration = to_string(choice.config),
                               .source = launch.source.path.empty() ? serving->source : launch.source,
                               .kernel = launch.kernel.empty() ? serving->kernel : launch.kernel,
                               .template_arguments = launch.template_arguments,
                               .num_parameters = launch.arguments.size(),
                               .parameter_types = launch.parameter_types,
                               .num_warps = launch.geometry.num_warps,
                               .vector_width = launch.vector_width,
                               .overlaps_previous = overlaps,
                               .target = target});
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
                                       const Target& target, Device device, const Config* given,
                                       const TunedLookup& tuned, Loading loading, bool overlap_previous) {
  auto plan = std::make_shared<Plan>();
  plan->spec = &spec;
  plan->device = device;
  plan->outputs.assign(outputs.begin(), outputs.end());
  const auto add_tensor = [&](const TensorView& view) {
    const bool absent = plan->tensors.size() >= call.outputs.size() && is_absent(view) &&
                        input_spec(spec, plan->tensors.size() - call.outputs.size()).optional;
    if (device.is_cuda() && !view.device.is_cuda() && !absent) plan->host_tensors.push_back(plan->tensors.size());
    plan->tensors.push_back({view.dtype, view.device, view.shape, view.strides, absent});
    plan->extents.push_back(absent ? MemoryExtent{} : memory_extent(view));
  };
  std::for_each(call.outputs.begin(), call.outputs.end(), add_tensor);
  std::for_each(call.inputs.begin(), call.inputs.end(), add_tensor);
  if (spec.cost) plan->report.cost = spec.cost(call);
  if (writes_nothing(*plan)) {
    plan->report.config_source = "none: every output is empty";
    return plan;
  }

  if (given != nullptr || !tuned) {
    add_steps(*plan, choose(spec, call, target, given, {}, overlap_previous), call, loading);
    return plan;
  }
  if (loading == Loading::refused) {  // the default would not be what the call gets at other times
    add_steps(*plan, choose(spec, call, target, nullptr, tuned, overlap_previous), call, loading);
    return plan;
  }
  const Plan without_steps = *plan;
  try {
    add_steps(*plan, choose(spec, call, target, nullptr, tuned, overlap_previous), call, loading);
    const PlanReport& report = plan->report;
    if (report.config_source.starts_with("tuned for "))  // other shapes
      detail::log_tuning(fmt::format("op '{}': {}, {}", spec.name, to_string(report.config), report.config_source));
  } catch (const Error& error) {
    // A file of tuned choices must never be what a call fails of. Where the default fails too, that error is the news.
    const std::string reason = error.what();
    *plan = without_steps;
    add_steps(*plan, choose(spec, call, target, nullptr, {}, overlap_previous), call, loading);
    detail::log_tuning("op '" + spec.name + "': the tuned config is not used, it failed: " + reason);
  }
  return plan;
}

namespace {

/// enqueue and enqueue_profiled; `call` is null in the first. A template, so that the first is as it would be alone.
template <bool is_profiled>
[[gnu::always_inline]] inline void enqueue_for([[maybe_unused]] ProfiledCall* call, const Plan& plan,
                                               std::span<const TensorView* const> tensors, Stream stream) {
  if (plan.steps.empty()) {
    if constexpr (is_profiled) {
      call->before_launch(&plan, stream, /*is_recorded=*/false);
      call->after_launch();
    }
    return;
  }
  CallPointers data;
  point_to_tensors(plan, tensors, data);
  if (plan.check.has_value() && is_capturing(stream)) [[unlikely]]
    refuse_check(plan);
  // Freed on the stream, after the last step, where launches overlap too: a kernel that starts early touches nothing
  // before the one ahead of it has ended, and whoever is given the memory next, here or on another stream, comes behind
  // the end of whole kernels, never behind the point where one let the next one in.
  std::optional<Tensor> workspace;
  if (plan.workspace_bytes > 0) {
    workspace.emplace(empty({plan.workspace_bytes}, DType::u8, stream));
    point_to_workspaces(plan, workspace->data(), data);
  }
  if constexpr (is_profiled) call->before_launch(&plan, stream, /*is_recorded=*/false);
  visit_steps(plan, data, [&](const Plan::Step& step, void** parameters) {
    if (plan.check.has_value() && &step == &plan.steps[plan.check->after_launches]) [[unlikely]]
      run_check(plan, data, stream);
    step.loaded->kernel->launch(step.geometry, parameters, stream);
  });
  if constexpr (is_profiled) call->after_launch();
}

}  // namespace

void enqueue(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  enqueue_for<false>(nullptr, plan, tensors, stream);
}

void enqueue_profiled(ProfiledCall& call, const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  enqueue_for<true>(&call, plan, tensors, stream);
}

void point_to_host_tensors(const Plan& plan, std::span<const TensorView* const> tensors, CallPointers& data) {
  for (const std::size_t i : plan.host_tensors) data[i] = host_pointer(plan, i, *tensors[i]);
}

void point_to_workspaces(const Plan& plan, void* memory, CallPointers& data) noexcept {
  for (std::size_t i = 0; i < plan.workspace_offsets_bytes.size(); ++i)
    data[kMaxTensors + i] = static_cast<std::byte*>(memory) + plan.workspace_offsets_bytes[i];
}

void refuse_check(const Plan& plan) {
  if (plan.check.has_value())
    throw_value_error("op '" + plan.spec->name +
                      "' was asked to check its data, for which it waits, and that cannot happen while the stream is "
                      "being captured: make the checked call before the capture, and capture it without the check");
}

}  // namespace kiln
