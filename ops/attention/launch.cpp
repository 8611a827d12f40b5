#include "ops/attention/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/attention/block_order.hpp"
#include "ops/attention/form_argument.hpp"
#include "ops/attention/number_types.hpp"
#include "ops/attention/tiling.hpp"
#include "ops/attention/widening.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::attention {
namespace {

constexpr const char* kKernel = "kiln::ops::attention_kernel";

void add_key_parameters(const AttentionCall& call, common::KernelParameters& parameters) {
  const auto add = [&](int workspace, Input tensor, DType type) {
    if (workspace >= 0)
      parameters.read_workspace(workspace, type);
    else
      parameters.read(call.tensor(tensor), type);
  };
  add(call.key_workspace, kKey, call.key.dtype);
  add(call.value_workspace, kValue, call.value.dtype);
}

void add_attention(const AttentionCall& call, const Config& config, const Target& target, LaunchPlan& plan) {
  const AttentionProblem& problem = call.problem;
  const std::int64_t block_m = config.at("BLOCK_M");
  const std::int64_t most = is_cuda(target) ? kMostGridExtent : std::max(problem.batch, problem.heads);
  const std::int64_t blocks = ceil_div(problem.queries, block_m);
  check_grid(kOp, blocks * heads_together(call.form, std::min(problem.heads, most), target), target);
  if (problem.heads == 0 || problem.queries == 0) return;
  const auto add_launch = [&](std::int64_t first_head, std::int64_t first_request) {
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.template_arguments = {
        call.out,  call.dtype, call.key.dtype,         call.value.dtype, product_dtype(call.dtype),
        call.mask, call.sink,  argument_of(call.form), block_m,          config.at("BLOCK_N")};
    for (const char* name : {"NUM_STAGES", "PROGRAMS"})
      launch.template_arguments.emplace_back(is_cuda(target) ? config.at(name) : std::int64_t{1});
    const std::int64_t heads = std::min(problem.heads - first_head, most);
    const std::int64_t together = heads_together(call.form, heads, target);
    launch.geometry.grid = {blocks * together, heads / together, std::min(problem.batch - first_request, most)};
    if (is_cuda(target)) {
      launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
      launch.geometry.copy_warps = static_cast<std::int32_t>(config.at("copy_warps"));
    }
    ops::AttentionIteration iteration = call.iteration;
    iteration.first_head = first_head;
    iteration.heads_together = static_cast<int>(together);
    iteration.first_request = first_request;
    common::KernelParameters parameters(launch);
    parameters.written(0, call.out)
        .written(problem.returns_lse ? 1 : -1, DType::f32)
        .read(call.tensor(kQuery), call.dtype);
    add_key_parameters(call, parameters);
    parameters.read(call.tensor(kMask, problem.mask != nullptr), call.mask)
        .read(call.tensor(kSlopes, problem.slopes != nullptr), DType::f32)
        .read(call.tensor(kSinks, problem.sinks != nullptr), call.sink)
        .read(call.tensor(kQueryScale, call.form.has_query_scale), DType::f32)
        .read(call.tensor(kKeyScale, call.form.has_key_scale), DType::f32)
        .read(call.tensor(kValueScale, call.form.has_value_scale), DType::f32)
        .value(call.iteration.k.row)
        .value(call.iteration.v.row)
        .value(iteration);
  };
  for (std::int64_t request = 0; request < problem.batch; request += most)
    for (std::int64_t head = 0; head < problem.heads; head += most) add_launch(head, request);
}

LaunchPlan plan_of(const AttentionCall& call, const Config& config, const Target& target) {
  LaunchPlan plan;
  add_attention(call, config, target, plan);
  return plan;
}

LaunchPlan widened_plan(const AttentionCall& call, const Config& config, const Target& target) {
  const AttentionCall behind_casts = widened(call);
  LaunchPlan plan;
  add_casts(behind_casts, call, target, plan);
  add_attention(behind_casts, config, target, plan);
  return plan;
}

/// `widens`: the kind's kernel behind casts of keys and values of 8 bits.
Variant make_variant(const common::CallParser<AttentionCall>& parse, const HeadKind& kind, bool widens) {
  return common::variant_of<AttentionCall>(
      parse,
      {.name = widens ? fmt::format("widened_{}", kind.most_dim) : kind.name(),
       .doc = kind.doc() + (widens ? ", to which keys and values of 8 are cast first" : ""),
       .source = embedded_source("ops/attention/kernel.hpp"),
       .kernel = kKernel,
       .serves =
           [kind, widens](const AttentionCall& call, const Target& target) {
             return widens == is_worth_widening(call, target) &&
                    kind.serves(call.form, call.dtype, widens ? product_dtype(call.dtype) : call.key.dtype);
           },
       .space = [kind](const Target& target) { return attention_space(kind, target); },
       .default_config = [kind](const AttentionCall& call,
                                const Target& target) { return default_tiling(kind, call.form, call.work(), target); },
       .plan = widens ? widened_plan : plan_of});
}

}  // namespace

std::vector<Variant> attention_variants() {
  const common::CallParser<AttentionCall> parse(attention_call);
  std::vector<Variant> variants;
  for (const HeadKind& kind : kHeadKinds) {
    variants.push_back(make_variant(parse, kind, false));
    if (!kind.is_float && !kind.has_bytes) variants.push_back(make_variant(parse, kind, true));
  }
  return variants;
}

}  // namespace kiln::attention
