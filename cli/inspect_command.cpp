#include "cli/inspect_command.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/attribute_text.hpp"
#include "cli/disassembler.hpp"
#include "cli/table.hpp"
#include "compiler/artifact_cache.hpp"
#include "compiler/compiler.hpp"
#include "compiler/stub.hpp"
#include "core/errors.hpp"
#include "registry/dispatch.hpp"
#include "registry/registry.hpp"
#include "runtime/device_info.hpp"
#include "runtime/kernel.hpp"

#ifdef KILN_HAS_CUDA
#include "compiler/nvrtc_compiler.hpp"
#endif

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

std::vector<CompileRequest> requests_of(const OpSpec& spec, const InspectOptions& options, const Target& target) {
  const Attributes attributes = parse_attributes(spec, options.call.attributes);
  const Device device = target.type == DeviceType::cuda ? Device::cuda(0) : Device::cpu();
  const std::vector<TensorView> views = placeholder_views(input_metas(spec, options.call, attributes), device);
  const std::optional<Config> config =
      options.config.empty() ? std::nullopt : std::optional(parse_config(options.config));
  return compile_requests(spec.name, views, attributes, target, config ? &*config : nullptr);
}

void check_form(const std::string& emit, const Target& target) {
  const bool for_cuda = emit == "ptx" || emit == "sass" || emit == "resources";
  const bool for_cpu = emit == "llvm-ir" || emit == "asm";
  if (for_cuda && target.type != DeviceType::cuda)
    throw_value_error(
        fmt::format("--emit {} is for GPUs, and this is {}; add --target sm_90a or the like, or use llvm-ir or asm",
                    emit, to_string(target)));
  if (for_cpu && target.type != DeviceType::cpu)
    throw_value_error(fmt::format("--emit {} is for the CPU, and this is {}; add --device cpu, or use ptx or sass",
                                  emit, to_string(target)));
}

std::string source_text(const CompileRequest& request) {
  const std::string& body = request.source.text;
  return fmt::format("// The generated translation unit\n{}\n// {}\n{}{}", stub(request), request.source.path, body,
                     body.empty() || body.back() != '\n' ? "\n" : "");
}

Json resources_of([[maybe_unused]] const CompileRequest& request,
                  [[maybe_unused]] const std::optional<Device>& device) {
#ifdef KILN_HAS_CUDA
  // ptxas's own account needs no GPU and tells spills from arrays; the driver's is added where there is a GPU, for it
  // may have compiled PTX anew.
  const PtxasReport report = ptxas_report(request);
  Json json = {{"registers", report.registers},
               {"static_shared_bytes", report.static_shared_bytes},
               {"stack_bytes", report.stack_bytes},
               {"spill_store_bytes", report.spill_store_bytes},
               {"spill_load_bytes", report.spill_load_bytes},
               {"threads_per_block", 32 * request.num_warps}};
  if (device) {
    const auto found = ArtifactCache::process().get(request, compiler_for(DeviceType::cuda));
    const KernelResources loaded = load_kernel(*found.artifact, *device)->resources();
    json["loaded"] = {{"registers", loaded.registers},
                      {"static_shared_bytes", loaded.static_shared_bytes},
                      {"local_bytes", loaded.local_bytes},
                      {"max_threads_per_block", loaded.max_threads_per_block}};
  }
  return json;
#else
  compiler_for(DeviceType::cuda);  // says how to get a build that has it
  return {};
#endif
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
    for (const auto& [inner, inner_value] : value.items()) add(key + ": " + inner, inner_value.dump());
  }
  return format_table(rows);
}

std::string emitted_text(const CompileRequest& request, const std::string& emit) {
  if (emit == "source") return source_text(request);
  Compiler& compiler = compiler_for(request.target.type);
  if (emit == "sass") return disassemble(*ArtifactCache::process().get(request, compiler).artifact);
  const EmitKind kind = emit == "ptx" ? EmitKind::ptx : emit == "asm" ? EmitKind::assembly : EmitKind::llvm_ir;
  return compiler.emit(request, kind);
}

}  // namespace

int inspect_command(const InspectOptions& options) {
  const OpSpec& spec = Registry::process().get(options.call.op);
  const Place place = place_of(options);
  check_form(options.emit, place.target);
  const std::vector<CompileRequest> requests = requests_of(spec, options, place.target);

  Json json = {
      {"op", spec.name}, {"target", to_string(place.target)}, {"emit", options.emit}, {"kernels", Json::array()}};
  std::string text;
  for (const CompileRequest& request : requests) {
    Json entry = {{"kernel", instance_name(request)}, {"configuration", request.configuration}};
    if (!text.empty()) text += '\n';
    if (options.emit == "resources") {
      const Json resources = resources_of(request, place.device);
      entry["resources"] = resources;
      text += format_table({{"kernel", instance_name(request)}, {"target", to_string(place.target)}}) +
              resources_text(resources);
    } else {
      const std::string emitted = emitted_text(request, options.emit);
      entry["text"] = emitted;
      text += emitted;
    }
    json["kernels"].push_back(std::move(entry));
  }
  if (options.json) text = json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace kiln::cli
