#include "registry/inspection/inspection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/artifact_cache.hpp"
#include "compiler/compilers.hpp"
#include "compiler/disassembler.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "compiler/stub.hpp"
#include "core/errors.hpp"
#include "registry/inspection/kernel_costs.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/tuned_config.hpp"

namespace kiln {
namespace {

std::string source_text(const CompileRequest& request) {
  const std::string& body = request.source.text;
  return fmt::format("// The generated translation unit\n{}\n// {}\n{}{}", stub(request), request.source.path, body,
                     body.empty() || body.back() != '\n' ? "\n" : "");
}

}  // namespace

InspectedCall inspect_call(const Call& call, const Target& target, const Config* config, TuningPolicy tuning) {
  const bool is_tuned = call.stream.has_value() && config == nullptr;
  Choice choice = choose(call, target, config, is_tuned ? tuned_lookup(call, target, tuning) : TunedLookup());
  InspectedCall inspected;
  inspected.variant = choice.variant->name;
  inspected.config = choice.config;
  inspected.config_source = choice.config_source;
  inspected.workspace_bytes = choice.plan.workspace_bytes;
  if (call.spec->cost) inspected.cost = call.spec->cost(call.seen_by_spec());
  for (std::size_t i = 0; i < choice.requests.size(); ++i)
    inspected.kernels.push_back({std::move(choice.requests[i]), choice.plan.launches[i].geometry});
  return inspected;
}

void check_kernel_form(std::string_view form, const Target& target) {
  const bool for_cuda = form == "ptx" || form == "sass" || form == "resources" || form == "costs";
  const bool for_cpu = form == "llvm-ir" || form == "asm";
  if (!for_cuda && !for_cpu && form != "source")
    throw_value_error(fmt::format(
        "a kernel cannot be shown as '{}'; expected source, ptx, sass, llvm-ir, asm, resources or costs", form));
  if (for_cuda && target.type != DeviceType::cuda)
    throw_value_error(
        fmt::format("{} is for GPUs, and this is {}; name a target like sm_90a, or ask for llvm-ir or asm", form,
                    to_string(target)));
  if (for_cpu && target.type != DeviceType::cpu)
    throw_value_error(fmt::format("{} is for the CPU, and this is {}; name the device cpu, or ask for ptx or sass",
                                  form, to_string(target)));
}

std::string kernel_text(const CompileRequest& request, std::string_view form) {
  check_kernel_form(form, request.target);
  if (form == "source") return source_text(request);
  if (form == "resources") throw_value_error("resources are numbers, which have no text: kernel_usage has them");
  if (form == "costs") return kernel_costs(request);
  Compiler& compiler = compiler_for(request.target.type);
  if (form == "sass") return disassemble(*ArtifactCache::process().get(request, compiler).artifact);
  const EmitKind kind = form == "ptx" ? EmitKind::ptx : form == "asm" ? EmitKind::assembly : EmitKind::llvm_ir;
  return compiler.emit(request, kind);
}

KernelUsage kernel_usage(const InspectedKernel& kernel, std::optional<Device> device) {
  const CompileRequest& request = kernel.request;
  check_kernel_form("resources", request.target);
  const PtxasReport report = ptxas_report(request);
  KernelUsage usage{.registers = report.registers,
                    .static_shared_bytes = report.static_shared_bytes,
                    .pipeline_shared_bytes = report.dynamic_shared_bytes,
                    .stack_bytes = report.stack_bytes,
                    .spill_store_bytes = report.spill_store_bytes,
                    .spill_load_bytes = report.spill_load_bytes,
                    .serializes_products = report.serializes_products,
                    .threads_per_block = 32 * (request.num_warps + request.copy_warps),
                    .loaded = std::nullopt,
                    .occupancy = std::nullopt};
  if (device) {
    const auto found = ArtifactCache::process().get(request, compiler_for(DeviceType::cuda));
    usage.loaded = load_kernel(*found.artifact, *device)->resources();
  }
  const std::int32_t dynamic_bytes = std::max(kernel.geometry.shared_bytes, usage.pipeline_shared_bytes);
  usage.occupancy = occupancy(
      request.target,
      {.threads = usage.threads_per_block,
       .registers_per_thread = usage.loaded ? usage.loaded->registers : usage.registers,
       .shared_bytes = dynamic_bytes + (usage.loaded ? usage.loaded->static_shared_bytes : usage.static_shared_bytes)});
  return usage;
}

}  // namespace kiln
