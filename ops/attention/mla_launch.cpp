#include "ops/attention/mla_launch.hpp"

#include <algorithm>

#include "ops/attention/form_argument.hpp"
#include "ops/attention/mla_call.hpp"
#include "ops/attention/mla_tiling.hpp"
#include "ops/attention/split_parts.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::attention {
namespace {

constexpr const char* kMlaKernel = "kiln::ops::mla_decode_kernel";

/// As the call's kernel, to leave its parts in scratch memory.
MlaCall in_parts(MlaCall call, const SplitParts& parts) {
  set_parts(call.iteration, parts);
  call.form.returns_lse = true;
  return call;
}

void add_decode(const MlaCall& call, const Config& config, const Target& target, std::int64_t first_request,
                LaunchPlan& plan) {
  const MlaProblem& problem = call.problem;
  const ops::MlaIteration& it = call.iteration;
  const std::int64_t block_m = config.at("BLOCK_M");
  const bool in_one = it.splits == 1, one_query = problem.queries == 1;
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments = {in_one ? call.dtype : DType::f32,
                               call.dtype,
                               call.pages.table.dtype,
                               call.pages.lengths.dtype,
                               argument_of(call.form),
                               std::int64_t{it.cache.page},
                               one_query,
                               one_query || it.out.row == it.heads * it.out.head,
                               block_m,
                               config.at("BLOCK_N")};
  launch.template_arguments.emplace_back(is_cuda(target) ? config.at("NUM_STAGES") : std::int64_t{1});
  const std::int64_t programs = it.splits * ceil_div(problem.rows(), block_m);
  check_grid(kMlaOp, programs, target);
  launch.geometry.grid = {
      programs, std::min(problem.batch - first_request, is_cuda(target) ? kMostGridExtent : problem.batch), 1};
  if (is_cuda(target)) {
    launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
    launch.vector_width = static_cast<std::int32_t>(16 / itemsize_bytes(call.dtype));
  }
  ops::MlaIteration iteration = it;
  iteration.first_request = first_request;
  common::KernelParameters parameters(launch);
  if (in_one)
    parameters.written(0, call.dtype).written(problem.returns_lse ? 1 : -1, DType::f32);
  else
    parameters.written_workspace(kPartRows, DType::f32).written_workspace(kPartLses, DType::f32);
  parameters.read(call.tensor(kLatentQuery), call.dtype)
      .read(call.tensor(kRotaryQuery), call.dtype)
      .read(call.tensor(kLatentCache), call.dtype)
      .read(call.tensor(kMlaTable), call.pages.table.dtype)
      .read(call.tensor(kMlaLengths), call.pages.lengths.dtype)
      .value(iteration.cache.place_stride)
      .value(iteration);
}

LaunchPlan mla_plan(const MlaCall& call, const Config& config, const Target& target) {
  const MlaProblem& problem = call.problem;
  LaunchPlan plan;
  if (problem.rows() == 0 || problem.batch == 0) return plan;
  const std::int64_t splits = mla_splits(call, config, target);
  const SplitParts parts = parts_by_queries({splits, problem.batch, problem.queries, problem.heads, problem.latent});
  const MlaCall launched = splits == 1 ? call : in_parts(call, parts);
  const std::int64_t most = is_cuda(target) ? kMostGridExtent : problem.batch;
  for (std::int64_t request = 0; request < problem.batch; request += most)
    add_decode(launched, config, target, request, plan);
  if (splits > 1) {
    plan.workspace_bytes = parts.workspace_bytes();
    add_merge({kMlaOp, call.out, problem.returns_lse ? &call.lse : nullptr}, parts, target, plan);
  }
  if (problem.checks_bounds)
    add_bounds_check(kMlaOp, call, {"cache", call.tensor(kMlaTable), call.tensor(kMlaLengths)}, target, plan);
  return plan;
}

Variant mla_variant(const common::CallParser<MlaCall>& parse, bool is_float) {
  return common::variant_of<MlaCall>(
      parse,
      {.name = is_float ? "float" : "half",
       .doc = is_float ? "of f32" : "of 16 bits",
       .source = embedded_source("ops/attention/kernel_mla.hpp"),
       .kernel = kMlaKernel,
       .serves = [is_float](const MlaCall& call, const Target&) { return (call.dtype == DType::f32) == is_float; },
       .space = [is_float](const Target& target) { return mla_space(is_float, target); },
       .default_config = default_mla_tiling,
       .plan = mla_plan});
}

}  // namespace

std::vector<Variant> mla_variants() {
  const common::CallParser<MlaCall> parse(mla_call);
  return {mla_variant(parse, false), mla_variant(parse, true)};
}

}  // namespace kiln::attention
