#include "registry/plan/build_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/plan/call_observer.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/kernel_cache.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/registry.hpp"
#include "runtime/device_info.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kWorkspaceAlignmentBytes = 256;

/// Which loaded kernel a request needs, by how many loads of it are full of other launches' tensor maps. A registered
/// variant never changes, so its address stands for its source.
ContentHash kernel_key(const Variant& variant, const CompileRequest& request, const std::string& instance,
                       Device device, std::int64_t full_loads) {
  return ContentHasher()
      .field(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&variant)))
      .field(instance)
      .field(request.num_warps)
      .field(request.copy_warps)
      .field(request.vector_width)
      .field(std::int64_t{request.overlaps_previous})
      .field(to_string(device))
      .field(full_loads)
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
  std::unique_ptr<PhaseObserver> loading_phase = observe_phase(ProfilePhase::load, request.op, report.name);
  const auto load = [&] {
    if (loading == Loading::refused) refuse_loading(request.op);
    std::unique_ptr<PhaseObserver> phase = observe_phase(ProfilePhase::compile, request.op, report.name);
    const ArtifactCache::Found found = ArtifactCache::process().get(request, compiler_for(device.type));
    if (phase != nullptr && found.origin != ArtifactCache::Origin::compiled) phase->turned_out(ProfilePhase::load);
    report.artifact_origin = found.origin;
    report.artifact_us = found.elapsed_us;
    phase.reset();
    const auto start = std::chrono::steady_clock::now();
    LoadedKernel kernel{load_kernel(*found.artifact, device), found.key.hex(), found.artifact->takes_dynamic_shared,
                        found.artifact->dynamic_shared_bytes, found.artifact->box_loads};
    // One that was given tensor maps has them for good, and is no use to plans with others.
    kernel.stays_loaded = device.is_cuda() && kernel.box_loads.empty() && loading != Loading::anew;
    report.load_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
    return kernel;
  };
  std::shared_ptr<const LoadedKernel> loaded;
  for (std::int64_t full_loads = 0;; ++full_loads) {
    loaded =
        loading == Loading::anew
            ? std::make_shared<const LoadedKernel>(load())
            : KernelCache::process().get(kernel_key(*choice.variant, request, report.name, device, full_loads), load);
    if (loaded->kernel->take_box_maps(box_maps(loaded->box_loads, launch.arguments))) break;
  }
  loading_phase.reset();
  report.artifact_key = loaded->artifact_key;
  // A kernel that waits may always be launched the usual way, as where the driver knows no other.
  report.overlaps_previous = overlaps_previous(request.overlaps_previous, device);
  LaunchGeometry geometry = launch.geometry;
  if (device.is_cuda())
    geometry.shared_bytes = launch_shared_bytes(
        request, *loaded, geometry.shared_bytes,
        device_info(device).shared_bytes_per_block - loaded->kernel->resources().static_shared_bytes);
  geometry.overlaps_previous = report.overlaps_previous;
  return {std::move(loaded), geometry, launch.arguments,
          TensorMapSet(launch.arguments.tensor_maps(), data.data(), device)};
}

/// Whether a call on the CPU moves and computes at most so much. What users' kernels do is not known, nor how much lies
/// at addresses.
bool takes_at_most(const Plan& plan, double bytes, double flops) {
  return !plan.device.is_cuda() && plan.spec->cost && plan.tables.empty() &&
         Registry::process().is_builtin(*plan.spec) && plan.report.cost.bytes <= bytes &&
         plan.report.cost.flops <= flops;
}

/// Compiles and loads what `choice` launches, and adds it to a plan that has no steps yet.
void add_steps(Plan& plan, const Choice& choice, const Call& call, Loading loading) {
  check_limits(*plan.spec, choice);
  plan.report.variant = choice.variant->name;
  plan.report.config = choice.config;
  plan.report.config_source = choice.config_source;
  CallPointers data{};
  for (std::size_t i = 0; i < call.outputs.size(); ++i) data[i] = call.outputs[i].data;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) data[call.outputs.size() + i] = call.inputs[i].data;
  for (std::size_t i = 0; i < choice.plan.launches.size(); ++i) {
    plan.steps.push_back(make_step(choice, i, plan.device, data, plan.report.kernels.emplace_back(), loading));
    plan.steps.back().geometry.is_brief = plan.is_brief;
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

}  // namespace

std::int32_t launch_shared_bytes(const CompileRequest& request, const LoadedKernel& kernel, std::int32_t stated_bytes,
                                 std::int32_t available_bytes) {
  const auto refuse = [&](const std::string& problem) {
    throw_value_error(
        fmt::format("op '{}': kernel {} ({}) {}", request.op, instance_name(request), request.configuration, problem));
  };
  const std::int32_t needed_bytes = kernel.dynamic_shared_bytes;
  if (stated_bytes == 0 && kernel.takes_dynamic_shared && needed_bytes == 0)
    refuse(
        "keeps data in dynamic shared memory of a size that it does not say (`extern __shared__`), and its launch "
        "gives it none: state how much in the op's launch function (kiln.Launch(..., shared_bytes=...) of "
        "kiln.register_op, LaunchValues::shared_bytes in C++)");
  if (stated_bytes != 0 && stated_bytes < needed_bytes)
    refuse(
        fmt::format("needs {} bytes of dynamic shared memory, and its launch states shared_bytes={}: leave "
                    "shared_bytes out, which gives it what it needs, or state as much",
                    needed_bytes, stated_bytes));
  const std::int32_t given_bytes = stated_bytes != 0 ? stated_bytes : needed_bytes;
  if (given_bytes > available_bytes)
    refuse(
        fmt::format("{} {} bytes of dynamic shared memory, and its device has {} for a program of it: choose smaller "
                    "blocks or fewer stages",
                    stated_bytes > needed_bytes ? "is launched with" : "needs", given_bytes, available_bytes));
  return given_bytes;
}

std::shared_ptr<const Plan> build_plan(const Call& call, const Target& target, const Config* given,
                                       const TunedLookup& tuned, Loading loading, bool overlap_previous) {
  const OpSpec& spec = *call.spec;
  auto plan = std::make_shared<Plan>();
  plan->spec = &spec;
  plan->device = call.device;
  plan->outputs = call.metas;
  const auto add_tensor = [&](const TensorView& view) {
    if (call.device.is_cuda() && !view.device.is_cuda()) plan->host_tensors.push_back(plan->tensors.size());
    plan->tensors.push_back({view.dtype, view.device, view.shape, view.strides, /*absent=*/false});
    plan->extents.push_back(memory_extent(view));
  };
  std::for_each(call.outputs.begin(), call.outputs.end(), add_tensor);
  const OpCall seen = call.seen_by_spec();
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (const TensorView* const input = call.input(i)) {
      add_tensor(*input);
    } else {
      plan->tensors.emplace_back().absent = true;
      plan->extents.emplace_back();
    }
    if (const auto& points_to = call.input_spec(i).points_to)
      plan->tables.push_back({call.outputs.size() + i, points_to(seen)});
  }
  if (spec.cost) plan->report.cost = spec.cost(seen);
  plan->is_brief = takes_at_most(*plan, 8192, 16384);
  if (writes_nothing(*plan)) {
    plan->report.config_source = "none: every output is empty";
    return plan;
  }

  if (given != nullptr || !tuned) {
    add_steps(*plan, choose(call, target, given, {}, overlap_previous), call, loading);
    return plan;
  }
  if (loading == Loading::refused) {  // the default would not be what the call gets at other times
    add_steps(*plan, choose(call, target, nullptr, tuned, overlap_previous), call, loading);
    return plan;
  }
  const Plan without_steps = *plan;
  try {
    add_steps(*plan, choose(call, target, nullptr, tuned, overlap_previous), call, loading);
    const PlanReport& report = plan->report;
    if (report.config_source.starts_with("tuned for "))  // other shapes
      detail::log_tuning(fmt::format("op '{}': {}, {}", spec.name, to_string(report.config), report.config_source));
  } catch (const Error& error) {
    // A file of tuned choices must never be what a call fails of. Where the default fails too, that error is the news.
    const std::string reason = error.what();
    *plan = without_steps;
    add_steps(*plan, choose(call, target, nullptr, {}, overlap_previous), call, loading);
    detail::log_tuning("op '" + spec.name + "': the tuned config is not used, it failed: " + reason);
  }
  return plan;
}

}  // namespace kiln
