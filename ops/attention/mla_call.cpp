#include "ops/attention/mla_call.hpp"

#include <fmt/format.h>

#include <string_view>

#include "core/errors.hpp"
#include "ops/attention/paged_contract.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/attention/strides.hpp"

namespace kiln::attention {
namespace {

void check_part(std::string_view name, std::int64_t extent, std::int64_t most) {
  if (extent < 1 || extent > most)
    throw_value_error(
        fmt::format("op '{}': input '{}' has heads of {} numbers, expected 1 to {}", kMlaOp, name, extent, most));
}

/// [blocks, page, 1, C] of a cache that may lack the one head.
TensorView with_head(const TensorView& cache) {
  if (cache.ndim() != 3 && (cache.ndim() != 4 || cache.shape[2] != 1))
    throw_value_error(
        fmt::format("op '{}': input 'cache' has shape {}, expected [blocks, page, C] or [blocks, page, 1, C]", kMlaOp,
                    to_string(cache.shape)));
  if (cache.ndim() == 4) return cache;
  TensorView view = cache;
  view.shape = {cache.shape[0], cache.shape[1], 1, cache.shape[2]};
  view.strides = {cache.strides[0], cache.strides[1], cache.shape[2] * cache.strides[2], cache.strides[2]};
  return view;
}

void set_extents(const CallInputs& inputs, MlaProblem& problem) {
  const TensorView &latent = inputs[kLatentQuery], &rotary = inputs[kRotaryQuery], &cache = inputs[kLatentCache];
  kv_cache::check_rank(kMlaOp, "q_nope", latent, 4, "[B, Sq, H, latent]");
  kv_cache::check_rank(kMlaOp, "q_pe", rotary, 4, "[B, Sq, H, rotary]");
  const auto check_same = [&](std::string_view name, const TensorView& view) {
    if (view.dtype != latent.dtype)
      throw_type_error(fmt::format("op '{}': input '{}' is {}, expected {}, as 'q_nope' is; cast it", kMlaOp, name,
                                   kiln::name(view.dtype), kiln::name(latent.dtype)));
  };
  check_same("q_pe", rotary);
  check_same("cache", cache);
  constexpr std::string_view kExtents[] = {"requests", "queries a request", "heads"};
  for (int axis = 0; axis < 3; ++axis)
    check_extent(kMlaOp, "q_pe", kExtents[axis], rotary.shape[axis], "q_nope", latent.shape[axis]);
  problem.batch = latent.shape[0];
  problem.queries = latent.shape[1];
  problem.heads = latent.shape[2];
  problem.latent = latent.shape[3];
  problem.rotary = rotary.shape[3];
  check_part("q_nope", problem.latent, kMostLatent);
  check_part("q_pe", problem.rotary, kMostRotary);
  problem.cache = with_head(cache);
  if (problem.cache.shape[3] != problem.latent + problem.rotary)
    throw_value_error(
        fmt::format("op '{}': input 'cache' has tokens of {} numbers, expected {}: the {} of a head of 'q_nope' and "
                    "behind them the "
                    "{} of one of 'q_pe'",
                    kMlaOp, problem.cache.shape[3], problem.latent + problem.rotary, problem.latent, problem.rotary));
  problem.num_blocks = problem.cache.shape[0];
  problem.page = problem.cache.shape[1];
}

void set_form(MlaCall& call) {
  const MlaProblem& problem = call.problem;
  const ops::MlaIteration& it = call.iteration;
  ops::AttentionForm& form = call.form;
  form = {};
  form.head_dim = static_cast<int>(problem.rotary);
  form.value_dim = static_cast<int>(problem.latent);
  form.is_dense =
      it.q_latent.element == 1 && it.q_rotary.element == 1 && it.cache.element_stride == 1 && it.out.element == 1;
  // The one query stands at the last key, behind which there are none.
  form.has_high = problem.queries > 1 && problem.is_causal;
  form.checks_keys = true;
  form.returns_lse = problem.returns_lse;
  form.scales_first = !(problem.scale > 0);
}

}  // namespace

PagedTable MlaProblem::table(const CallInputs& inputs) const {
  return {inputs[kMlaTable], inputs[kMlaLengths], batch, page, num_blocks, most_tokens};
}

MlaProblem mla_problem(const CallInputs& inputs, const Attributes& attributes) {
  MlaProblem problem;
  set_extents(inputs, problem);
  problem.most_tokens = most_tokens_of(kMlaOp, inputs[kMlaTable], inputs[kMlaLengths],
                                       {.batch = problem.batch,
                                        .num_blocks = problem.num_blocks,
                                        .page = problem.page,
                                        .rows = problem.rows(),
                                        .query = "q_nope",
                                        .cache = "cache"});
  problem.is_causal = is_causal_over_pages(kMlaOp, attributes);
  problem.scale = number_of_f32(kMlaOp, attributes, "scale");
  problem.returns_lse = attributes.get_bool("return_lse");
  problem.num_splits = num_splits_of(kMlaOp, attributes);
  problem.checks_bounds = attributes.get_bool("check_bounds");
  return problem;
}

std::vector<TensorMeta> infer_mla(const CallInputs& inputs, const Attributes& attributes) {
  const MlaProblem problem = mla_problem(inputs, attributes);
  std::vector<TensorMeta> outputs = {{inputs[kLatentQuery].dtype, inputs[kLatentQuery].shape}};
  if (problem.returns_lse) outputs.push_back({DType::f32, {problem.batch, problem.heads, problem.queries}});
  return outputs;
}

MlaCall mla_call(const OpCall& call) {
  MlaCall result;
  result.problem = mla_problem(call.inputs, call.attributes);
  const MlaProblem& problem = result.problem;
  static_cast<PagesCall&>(result) = PagesCall(call, kLatentCache, problem.table(call.inputs));

  ops::MlaIteration& it = result.iteration;
  it = {};
  it.queries = problem.queries;
  it.heads = static_cast<int>(problem.heads);
  it.most_tokens = problem.most_tokens;
  it.scale = static_cast<float>(problem.scale);
  it.q_latent = query_strides(call.inputs[kLatentQuery]);
  it.q_rotary = query_strides(call.inputs[kRotaryQuery]);
  it.out = query_strides(call.outputs[0]);
  it.cache = kv_cache::paged_cache(problem.cache, kv_cache::PageLayout::nhd);
  result.set_strides(it);
  set_form(result);
  return result;
}

}  // namespace kiln::attention
