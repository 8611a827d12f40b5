#include "ops/attention/paged_launch.hpp"

#include <algorithm>

#include "ops/attention/form_argument.hpp"
#include "ops/attention/paged_call.hpp"
#include "ops/attention/paged_tiling.hpp"
#include "ops/attention/split_parts.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::attention {
namespace {

constexpr const char* kPagedKernel = "kiln::ops::attention_paged_kernel";

SplitParts parts_of(const PagedProblem& problem, std::int64_t splits) {
  return parts_by_heads({splits, problem.batch, problem.queries, problem.heads, problem.values.width});
}

/// As the call's kernel, to leave its parts in scratch memory.
PagedCall in_parts(PagedCall call, const SplitParts& parts) {
  set_parts(call.iteration, parts);
  call.form.returns_lse = true;
  return call;
}

void add_attention(const PagedCall& call, const Config& config, const Target& target, std::int64_t first_head,
                   std::int64_t first_request, LaunchPlan& plan) {
  const PagedProblem& problem = call.problem;
  const std::int64_t splits = call.iteration.splits, block_m = config.at("BLOCK_M");
  const bool in_one = splits == 1;
  const std::int64_t most = is_cuda(target) ? kMostGridExtent : std::max(problem.batch, problem.heads);
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments = {in_one ? call.dtype : DType::f32,
                               call.dtype,
                               call.keys,
                               call.sink,
                               call.pages.table.dtype,
                               call.pages.lengths.dtype,
                               argument_of(call.form),
                               std::int64_t{call.iteration.k.page},
                               problem.is_list,
                               problem.queries == 1,
                               block_m,
                               config.at("BLOCK_N")};
  launch.template_arguments.emplace_back(is_cuda(target) ? config.at("NUM_STAGES") : std::int64_t{1});
  const std::int64_t programs = splits * ceil_div(problem.rows(), block_m);
  check_grid(kPagedOp, programs, target);
  launch.geometry.grid = {programs, std::min(problem.keys.heads - first_head, most),
                          std::min(problem.batch - first_request, most)};
  if (is_cuda(target)) {
    launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
    launch.vector_width = static_cast<std::int32_t>(16 / itemsize_bytes(call.dtype));
  }
  ops::PagedAttentionIteration iteration = call.iteration;
  iteration.first_head = first_head;
  iteration.first_request = first_request;
  common::KernelParameters parameters(launch);
  if (in_one)
    parameters.written(0, call.dtype).written(problem.returns_lse ? 1 : -1, DType::f32);
  else
    parameters.written_workspace(kPartRows, DType::f32).written_workspace(kPartLses, DType::f32);
  parameters.read(call.tensor(kPagedQuery), call.dtype)
      .read(call.tensor(kKeyCache), call.keys)
      .read(call.tensor(kValueCache), call.keys)
      .read(call.tensor(kBlockTable), call.pages.table.dtype)
      .read(call.tensor(kLengths), call.pages.lengths.dtype)
      .read(call.tensor(kPageStarts, problem.is_list), call.pages.table.dtype)
      .read(call.tensor(kPagedSlopes, problem.slopes != nullptr), DType::f32)
      .read(call.tensor(kPagedSinks, problem.sinks != nullptr), call.sink)
      .read(call.tensor(kPagedKeyScale, call.form.has_key_scale), DType::f32)
      .read(call.tensor(kPagedValueScale, call.form.has_value_scale), DType::f32)
      .value(iteration.k.place_stride)
      .value(iteration.v.place_stride)
      .value(iteration);
}

LaunchPlan paged_plan(const HeadKind& kind, const PagedCall& call, const Config& config, const Target& target) {
  const PagedProblem& problem = call.problem;
  const std::int64_t most = is_cuda(target) ? kMostGridExtent : std::max(problem.batch, problem.heads);
  LaunchPlan plan;
  if (problem.heads == 0 || problem.queries == 0 || problem.batch == 0) return plan;
  const std::int64_t splits = paged_splits(kind, call, config, target);
  const SplitParts parts = parts_of(problem, splits);
  const PagedCall launched = splits == 1 ? call : in_parts(call, parts);
  for (std::int64_t request = 0; request < problem.batch; request += most)
    for (std::int64_t head = 0; head < problem.keys.heads; head += most)
      add_attention(launched, config, target, head, request, plan);
  if (splits > 1) {
    plan.workspace_bytes = parts.workspace_bytes();
    add_merge({kPagedOp, call.out, problem.returns_lse ? &call.lse : nullptr}, parts, target, plan);
  }
  if (problem.checks_bounds)
    add_bounds_check(kPagedOp, call, {"k_cache", call.tensor(kBlockTable), call.tensor(kLengths)}, target, plan);
  return plan;
}

Variant paged_variant(const common::CallParser<PagedCall>& parse, const HeadKind& kind) {
  return common::variant_of<PagedCall>(
      parse,
      {.name = kind.name(),
       .doc = kind.doc(),
       .source = embedded_source("ops/attention/kernel_paged.hpp"),
       .kernel = kPagedKernel,
       .serves = [kind](const PagedCall& call, const Target&) { return kind.serves(call.form, call.dtype, call.keys); },
       .space = [kind](const Target& target) { return paged_space(kind, target); },
       .default_config = [kind](const PagedCall& call,
                                const Target& target) { return default_paged_tiling(kind, call, target); },
       .plan = [kind](const PagedCall& call, const Config& config,
                      const Target& target) { return paged_plan(kind, call, config, target); }});
}

}  // namespace

std::vector<Variant> paged_variants() {
  const common::CallParser<PagedCall> parse(paged_call);
  std::vector<Variant> variants;
  for (const HeadKind& kind : kHeadKinds) variants.push_back(paged_variant(parse, kind));
  return variants;
}

}  // namespace kiln::attention
