#include "ops/attention/launch.hpp"

#include <algorithm>
#include <utility>

#include "ops/attention/form_argument.hpp"
#include "ops/attention/number_types.hpp"
#include "ops/attention/tiling.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::attention {
namespace {

constexpr const char* kKernel = "kiln::ops::attention_kernel";

LaunchPlan plan_of(const AttentionCall& call, const Config& config, const Target& target) {
  const AttentionProblem& problem = call.problem;
  const std::int64_t block_m = config.at("BLOCK_M");
  const std::int64_t most = is_cuda(target) ? kMostGridExtent : std::max(problem.batch, problem.heads);
  check_grid(kOp, ceil_div(problem.queries, block_m), target);
  LaunchPlan plan;
  if (problem.heads == 0 || problem.queries == 0) return plan;
  const auto add_launch = [&](std::int64_t first_head, std::int64_t first_request) {
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.template_arguments = {call.out,
                                 call.dtype,
                                 call.keys,
                                 product_dtype(call.dtype),
                                 call.mask,
                                 call.sink,
                                 argument_of(call.form),
                                 block_m,
                                 config.at("BLOCK_N")};
    for (const char* name : {"NUM_STAGES", "PROGRAMS"})
      launch.template_arguments.emplace_back(is_cuda(target) ? config.at(name) : std::int64_t{1});
    launch.geometry.grid = {ceil_div(problem.queries, block_m), std::min(problem.heads - first_head, most),
                            std::min(problem.batch - first_request, most)};
    if (is_cuda(target)) launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
    ops::AttentionIteration iteration = call.iteration;
    iteration.first_head = first_head;
    iteration.first_request = first_request;
    common::KernelParameters(launch)
        .written(0, call.out)
        .written(problem.returns_lse ? 1 : -1, DType::f32)
        .read(call.tensor(kQuery), call.dtype)
        .read(call.tensor(kKey), call.keys)
        .read(call.tensor(kValue), call.keys)
        .read(call.tensor(kMask, problem.mask != nullptr), call.mask)
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
  return plan;
}

Variant make_variant(const common::CallParser<AttentionCall>& parse, const HeadKind& kind) {
  return common::variant_of<AttentionCall>(
      parse,
      {.name = kind.name(),
       .doc = kind.doc(),
       .source = embedded_source("ops/attention/kernel.hpp"),
       .kernel = kKernel,
       .serves = [kind](const AttentionCall& call,
                        const Target&) { return kind.serves(call.form, call.dtype, call.keys); },
       .space = [kind](const Target& target) { return attention_space(kind, target); },
       .default_config = [kind](const AttentionCall& call,
                                const Target& target) { return default_tiling(kind, call.form, call.work(), target); },
       .plan = plan_of});
}

}  // namespace

std::vector<Variant> attention_variants() {
  const common::CallParser<AttentionCall> parse(attention_call);
  std::vector<Variant> variants;
  for (const HeadKind& kind : kHeadKinds) variants.push_back(make_variant(parse, kind));
  return variants;
}

}  // namespace kiln::attention
