#include "ops/attention/varlen_launch.hpp"

#include <algorithm>

#include "ops/attention/block_order.hpp"
#include "ops/attention/form_argument.hpp"
#include "ops/attention/number_types.hpp"
#include "ops/attention/paged_contract.hpp"
#include "ops/attention/tiling.hpp"
#include "ops/attention/varlen_call.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::attention {
namespace {

constexpr const char* kVarlenKernel = "kiln::ops::attention_varlen_kernel";

LaunchPlan varlen_plan(const VarlenCall& call, const Config& config, const Target& target) {
  const VarlenProblem& problem = call.problem;
  const std::int64_t block_m = config.at("BLOCK_M"),
                     blocks = std::max<std::int64_t>(ceil_div(problem.max_queries, block_m), 1);
  const std::int64_t parts = problem.sequences + 1;  // the last one fills rows that are no sequence's
  const std::int64_t most = is_cuda(target) ? kMostGridExtent : std::max(parts, problem.heads);
  check_grid(kVarlenOp, blocks * heads_together(call.form, std::min(problem.heads, most), target), target);
  LaunchPlan plan;
  if (problem.heads == 0 || problem.queries == 0) return plan;
  const auto add_launch = [&](std::int64_t first_head, std::int64_t first_part) {
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.template_arguments = {call.out,
                                 call.dtype,
                                 call.keys,
                                 product_dtype(call.dtype),
                                 call.sink,
                                 call.index,
                                 argument_of(call.form),
                                 problem.page,
                                 block_m,
                                 config.at("BLOCK_N")};
    for (const char* name : {"NUM_STAGES", "PROGRAMS"})
      launch.template_arguments.emplace_back(is_cuda(target) ? config.at(name) : std::int64_t{1});
    const std::int64_t heads = std::min(problem.heads - first_head, most);
    const std::int64_t together = heads_together(call.form, heads, target);
    launch.geometry.grid = {blocks * together, heads / together, std::min(parts - first_part, most)};
    if (is_cuda(target)) {
      launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
      launch.geometry.copy_warps = static_cast<std::int32_t>(config.at("copy_warps"));
      launch.vector_width = static_cast<std::int32_t>(16 / itemsize_bytes(call.dtype));
    }
    ops::VarlenIteration iteration = call.iteration;
    iteration.each.first_head = first_head;
    iteration.each.heads_together = static_cast<int>(together);
    iteration.each.first_request = first_part;
    common::KernelParameters(launch)
        .written(0, call.out)
        .written(problem.returns_lse ? 1 : -1, DType::f32)
        .read(call.tensor(kPackedQuery), call.dtype)
        .read(call.tensor(kPackedKey), call.keys)
        .read(call.tensor(kPackedValue), call.keys)
        .read(call.tensor(kQueryStarts), call.index)
        .read(call.tensor(kKeyStarts, call.has_key_starts), call.index)
        .read(call.tensor(kUsedKeys, call.has_used_keys), call.index)
        .read(call.tensor(kVarlenTable, problem.in_pages()), call.index)
        .read(call.tensor(kVarlenSlopes, problem.slopes != nullptr), DType::f32)
        .read(call.tensor(kVarlenSinks, problem.sinks != nullptr), call.sink)
        .read(call.tensor(kVarlenQueryScale, call.form.has_query_scale), DType::f32)
        .read(call.tensor(kVarlenKeyScale, call.form.has_key_scale), DType::f32)
        .read(call.tensor(kVarlenValueScale, call.form.has_value_scale), DType::f32)
        .value(iteration.each.k.row)
        .value(iteration.each.v.row)
        .value(iteration);
  };
  for (std::int64_t part = 0; part < parts; part += most)
    for (std::int64_t head = 0; head < problem.heads; head += most) add_launch(head, part);
  return plan;
}

Config default_varlen_tiling(const HeadKind& kind, const VarlenCall& call, const Target& target) {
  Config config = default_tiling(kind, call.form, call.work(), target);
  if (call.problem.in_pages() && !is_cuda(target))
    config.set("BLOCK_N", cpu_page_keys(call.problem.page, call.problem.max_keys, config.at("BLOCK_N")));
  return config;
}

Variant varlen_variant(const common::CallParser<VarlenCall>& parse, const HeadKind& kind) {
  return common::variant_of<VarlenCall>(
      parse, {.name = kind.name(),
              .doc = kind.doc(),
              .source = embedded_source("ops/attention/kernel_varlen.hpp"),
              .kernel = kVarlenKernel,
              .serves = [kind](const VarlenCall& call,
                               const Target&) { return kind.serves(call.form, call.dtype, call.keys); },
              .space = [kind](const Target& target) { return attention_space(kind, target); },
              .default_config = [kind](const VarlenCall& call,
                                       const Target& target) { return default_varlen_tiling(kind, call, target); },
              .plan = varlen_plan});
}

}  // namespace

std::vector<Variant> varlen_variants() {
  const common::CallParser<VarlenCall> parse(varlen_call);
  std::vector<Variant> variants;
  for (const HeadKind& kind : kHeadKinds) variants.push_back(varlen_variant(parse, kind));
  return variants;
}

}  // namespace kiln::attention
