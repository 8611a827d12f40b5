#include "python/bindings/inspection.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/bound_call.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "registry/inspection/inspection.hpp"
#include "registry/plan/device_target.hpp"
#include "runtime/device_info.hpp"

namespace kiln::python {
namespace {

struct Place {
  Target target;
  std::optional<Device> device;  ///< unset: the target need not be on this machine
};

Place place_of(const BoundCall& call, const std::optional<std::string>& device,
               const std::optional<std::string>& target) {
  if (target && device) throw_value_error("device and target exclude each other: give one of them");
  if (target && *target != "cpu") return {parse_cuda_target(*target), std::nullopt};
  const Device found = target ? Device::cpu() : device ? parse_device(*device) : call.device();
  device_info(found);  // refuses a device that is not there
  return {target_of(found), found};
}

/// The call as one of the place's, wherever its tensors are.
Call placed(const BoundCall& call, const Place& place) {
  const Device device = place.device.value_or(Device{place.target.type, 0});
  std::vector<TensorView> views = call.views;
  for (TensorView& view : views) view.device = device;
  return validated_call(
      call.spec, CallInputs(views, call.left_out), call.attributes,
      place.device ? CallOptions{.stream = Stream::default_of(device)} : CallOptions{.seen_on = device});
}

py::dict to_python(const KernelUsage& usage) {
  py::dict dict;
  dict["registers"] = usage.registers;
  dict["static_shared_bytes"] = usage.static_shared_bytes;
  dict["pipeline_shared_bytes"] = usage.pipeline_shared_bytes;
  dict["stack_bytes"] = usage.stack_bytes;
  dict["spill_store_bytes"] = usage.spill_store_bytes;
  dict["spill_load_bytes"] = usage.spill_load_bytes;
  dict["serializes_products"] = usage.serializes_products;
  dict["threads_per_block"] = usage.threads_per_block;
  if (usage.loaded) {
    py::dict loaded;
    loaded["registers"] = usage.loaded->registers;
    loaded["static_shared_bytes"] = usage.loaded->static_shared_bytes;
    loaded["local_bytes"] = usage.loaded->local_bytes;
    loaded["max_threads_per_block"] = usage.loaded->max_threads_per_block;
    dict["loaded"] = loaded;
  }
  if (const auto& occupancy = usage.occupancy) {
    py::dict programs;
    programs["programs"] = occupancy->programs;
    programs["warps"] = occupancy->warps;
    programs["share"] = occupancy->share;
    programs["by_registers"] = occupancy->by_registers;
    programs["by_shared_memory"] = occupancy->by_shared_memory;
    programs["by_threads"] = occupancy->by_threads;
    programs["by_programs"] = occupancy->by_programs;
    programs["limited_by"] = occupancy->limited_by;
    dict["occupancy"] = programs;
  }
  return dict;
}

py::dict plan_of(const InspectedCall& call, const Target& target) {
  py::dict plan;
  plan["target"] = to_string(target);
  plan["variant"] = call.variant;
  plan["config"] = python::to_python(call.config);
  plan["config_source"] = call.config_source;
  plan["bytes"] = call.cost.bytes;
  plan["flops"] = call.cost.flops;
  plan["workspace_bytes"] = call.workspace_bytes;
  py::list kernels;
  for (const InspectedKernel& kernel : call.kernels) {
    py::dict entry;
    entry["kernel"] = instance_name(kernel.request);
    entry["file"] = kernel.request.source.path;
    entry["grid"] = py::make_tuple(kernel.geometry.grid[0], kernel.geometry.grid[1], kernel.geometry.grid[2]);
    if (target.type == DeviceType::cuda) {
      entry["num_warps"] = kernel.geometry.num_warps;
      entry["copy_warps"] = kernel.geometry.copy_warps;
      entry["shared_bytes"] = kernel.geometry.shared_bytes;
    }
    kernels.append(entry);
  }
  plan["kernels"] = kernels;
  return plan;
}

py::object inspect(const std::string& op, const py::sequence& tensors, const py::dict& arguments,
                   const std::string& emit, const std::optional<std::string>& device,
                   const std::optional<std::string>& target, py::handle config) {
  const BoundCall call(op, tensors, arguments, /*metas_allowed=*/true);
  const Place place = place_of(call, device, target);
  constexpr std::array kForms{"source", "ptx", "sass", "llvm-ir", "asm", "resources", "costs", "plan"};
  if (std::find(kForms.begin(), kForms.end(), emit) == kForms.end())
    throw_value_error(fmt::format("emit is '{}'; expected one of {}", emit, fmt::join(kForms, ", ")));
  if (emit != "plan") check_kernel_form(emit, place.target);
  const std::optional<Config> given = optional_config_argument(config);
  InspectedCall inspected;
  std::vector<std::string> texts;
  std::vector<KernelUsage> usages;
  {
    const GilReleased released;
    inspected = inspect_call(placed(call, place), place.target, given ? &*given : nullptr, tuning_policy());
    for (const InspectedKernel& kernel : inspected.kernels) {
      if (emit == "resources")
        usages.push_back(kernel_usage(kernel, place.device));
      else if (emit != "plan")
        texts.push_back(kernel_text(kernel.request, emit));
    }
  }
  if (emit == "plan") return plan_of(inspected, place.target);
  if (emit == "resources") {
    py::dict resources;
    for (std::size_t i = 0; i < usages.size(); ++i)
      resources[py::str(instance_name(inspected.kernels[i].request))] = to_python(usages[i]);
    return resources;
  }
  return py::str(fmt::format("{}", fmt::join(texts, "\n")));
}

}  // namespace

void bind_inspection(py::module_& module) {
  module.def("inspect_call", inspect, py::arg("op"), py::arg("tensors"), py::arg("arguments"), py::arg("emit"),
             py::arg("device"), py::arg("target"), py::arg("config"),
             "What a call would run: text of its kernels, or numbers.");
}

}  // namespace kiln::python
