#include "cli/inspect_command.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/attribute_text.hpp"
#include "cli/standard_streams.hpp"
#include "compiler/host_cpu.hpp"
#include "core/errors.hpp"
#include "core/text_table.hpp"
#include "registry/inspection/inspection.hpp"
#include "registry/plan/registry.hpp"
#include "runtime/device_info.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Place {
  Target target;
  std::optional<Device> device;  ///< unset: the target need not be on this machine
};

Place place_of(const InspectOptions& options) {
  if (!options.target.empty()) {
    if (!options.device.empty()) throw_value_error("--device and --target exclude each other");
    return {parse_cuda_target(options.target), std::nullopt};
  }
  const Device device = !options.device.empty()              ? parse_device(options.device)
                        : device_count(DeviceType::cuda) > 0 ? Device::cuda(0)
                                                             : Device::cpu();
  const DeviceInfo& found = device_info(device);
  return {device.is_cuda() ? found.target : host_cpu_target(), device};
}

std::vector<InspectedKernel> kernels_of(const OpSpec& spec, const InspectOptions& options, const Target& target) {
  const Attributes attributes = parse_attributes(spec, options.call.attributes);
  const Device device = target.type == DeviceType::cuda ? Device::cuda(0) : Device::cpu();
  const Call call = validated_call(spec, placeholder_views(input_metas(spec, options.call, attributes), device),
                                   attributes, {.seen_on = device});
  const std::optional<Config> config =
      options.config.empty() ? std::nullopt : std::optional(parse_config(options.config));
  return inspect_call(call, target, config ? &*config : nullptr).kernels;
}

Json resources_of(const KernelUsage& usage) {
  Json json = {{"registers", usage.registers},
               {"static_shared_bytes", usage.static_shared_bytes},
               {"pipeline_shared_bytes", usage.pipeline_shared_bytes},
               {"stack_bytes", usage.stack_bytes},
               {"spill_store_bytes", usage.spill_store_bytes},
               {"spill_load_bytes", usage.spill_load_bytes},
               {"serializes_products", usage.serializes_products},
               {"threads_per_block", usage.threads_per_block}};
  if (usage.loaded)
    json["loaded"] = {{"registers", usage.loaded->registers},
                      {"static_shared_bytes", usage.loaded->static_shared_bytes},
                      {"local_bytes", usage.loaded->local_bytes},
                      {"max_threads_per_block", usage.loaded->max_threads_per_block}};
  if (const auto& occupancy = usage.occupancy)
    json["occupancy"] = {{"programs", occupancy->programs},
                         {"warps", occupancy->warps},
                         {"share", occupancy->share},
                         {"by_registers", occupancy->by_registers},
                         {"by_shared_memory", occupancy->by_shared_memory},
                         {"by_threads", occupancy->by_threads},
                         {"by_programs", occupancy->by_programs},
                         {"limited_by", occupancy->limited_by}};
  return json;
}

std::string resources_text(const Json& resources) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&rows](std::string label, const std::string& value) {
    for (char& character : label)
      if (character == '_') character = ' ';
    rows.push_back({std::move(label), value});
  };
  for (const auto& [key, value] : resources.items()) {
    if (!value.is_object()) {
      add(key, value.dump());
      continue;
    }
    if (key == "occupancy") continue;  // as a sentence, below
    for (const auto& [inner, inner_value] : value.items()) add(key + ": " + inner, inner_value.dump());
  }
  return format_table(rows);
}

/// How many programs are on a multiprocessor, and how many each resource allows for; nothing for an unknown GPU.
std::string occupancy_text(const KernelUsage& usage, const Target& target) {
  if (!usage.occupancy) return {};
  const Occupancy& occupancy = *usage.occupancy;
  return fmt::format("on a multiprocessor: {}\n  by registers {}, by shared memory {}, by threads {}, at most {}\n",
                     to_string(occupancy, *multiprocessor_limits(target)), occupancy.by_registers,
                     occupancy.by_shared_memory, occupancy.by_threads, occupancy.by_programs);
}

}  // namespace

int inspect_command(const InspectOptions& options) {
  const OpSpec& spec = Registry::process().get(options.call.op);
  const Place place = place_of(options);
  check_kernel_form(options.emit, place.target);
  const std::vector<InspectedKernel> kernels = kernels_of(spec, options, place.target);

  Json json = {
      {"op", spec.name}, {"target", to_string(place.target)}, {"emit", options.emit}, {"kernels", Json::array()}};
  std::string text;
  for (const InspectedKernel& kernel : kernels) {
    const CompileRequest& request = kernel.request;
    Json entry = {{"kernel", instance_name(request)}, {"configuration", request.configuration}};
    if (!text.empty()) text += '\n';
    if (options.emit == "resources") {
      const KernelUsage usage = kernel_usage(kernel, place.device);
      const Json resources = resources_of(usage);
      entry["resources"] = resources;
      text += format_table({{"kernel", instance_name(request)}, {"target", to_string(place.target)}}) +
              resources_text(resources) + occupancy_text(usage, place.target);
    } else {
      const std::string emitted = kernel_text(request, options.emit);
      entry["text"] = emitted;
      text += emitted;
    }
    json["kernels"].push_back(std::move(entry));
  }
  if (options.json)
    print_json(json);
  else
    print_text(text);
  return 0;
}

}  // namespace kiln::cli
