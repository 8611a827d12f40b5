#include "ops/attention/paged_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/errors.hpp"
#include "ops/attention/number_types.hpp"
#include "ops/attention/paged_contract.hpp"
#include "ops/attention/score_form.hpp"
#include "ops/attention/strides.hpp"
#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

/// q, k_cache and v_cache beside each other.
void set_paged_extents(const CallInputs& inputs, PagedProblem& problem) {
  const TensorView &q = inputs[kPagedQuery], &k = inputs[kKeyCache], &v = inputs[kValueCache];
  const std::string_view shape = kv_cache::shape_text(problem.layout);
  kv_cache::check_rank(kPagedOp, "q", q, 4, "[B, Sq, H, D]");
  kv_cache::check_rank(kPagedOp, "k_cache", k, 4, shape);
  kv_cache::check_rank(kPagedOp, "v_cache", v, 4, shape);
  check_key_types(kPagedOp, {"k_cache", "v_cache"}, q, k, v);
  problem.batch = q.shape[0];
  problem.queries = q.shape[1];
  problem.heads = q.shape[2];
  problem.head_dim = q.shape[3];
  problem.keys = kv_cache::cache_shape(k.shape, problem.layout);
  problem.values = kv_cache::cache_shape(v.shape, problem.layout);
  check_extent(kPagedOp, "k_cache", "numbers a head", problem.keys.width, "q", problem.head_dim);
  check_extent(kPagedOp, "v_cache", "blocks", problem.values.num_blocks, "k_cache", problem.keys.num_blocks);
  check_extent(kPagedOp, "v_cache", "tokens a block", problem.values.page, "k_cache", problem.keys.page);
  check_extent(kPagedOp, "v_cache", "heads", problem.values.heads, "k_cache", problem.keys.heads);
  check_head_dim(kPagedOp, "q", problem.head_dim);
  check_head_dim(kPagedOp, "v_cache", problem.values.width);
  check_groups(kPagedOp, "k_cache", problem.heads, problem.keys.heads);
}

void set_form(PagedCall& call) {
  const PagedProblem& problem = call.problem;
  const ops::PagedAttentionIteration& it = call.iteration;
  ops::AttentionForm& form = call.form;
  form = {};
  set_form(problem, form);
  form.head_dim = static_cast<int>(problem.head_dim);
  form.value_dim = static_cast<int>(problem.values.width);
  form.is_dense = it.q.element == 1 && it.k.element_stride == 1 && it.v.element_stride == 1 && it.out.element == 1;
  // The one query stands at the last key, behind which there are none.
  form.has_high = problem.queries > 1 && (problem.is_causal || problem.right >= 0);
  form.has_low = problem.left >= 0 && problem.left < problem.most_tokens + problem.queries;
  form.checks_keys = true;
}

}  // namespace

PagedProblem paged_problem(const CallInputs& inputs, const Attributes& attributes) {
  PagedProblem problem;
  problem.layout = kv_cache::page_layout(kPagedOp, attributes);
  set_paged_extents(inputs, problem);
  const TableShape shape{.batch = problem.batch,
                         .num_blocks = problem.keys.num_blocks,
                         .page = problem.keys.page,
                         .rows = problem.rows(),
                         .query = "q",
                         .cache = "k_cache"};
  const TensorView* const starts = inputs.find(kPageStarts);
  problem.is_list = starts != nullptr;
  problem.most_tokens =
      problem.is_list
          ? most_tokens_of_list(kPagedOp, {inputs[kBlockTable], inputs[kLengths], *starts, "page_indptr"}, shape)
          : most_tokens_of(kPagedOp, inputs[kBlockTable], inputs[kLengths], shape);
  problem.usual_tokens = problem.most_tokens;
  if (problem.is_list && problem.batch > 0)
    problem.usual_tokens = ceil_div(problem.most_tokens, problem.batch * problem.keys.page) * problem.keys.page;
  problem.is_causal = is_causal_over_pages(kPagedOp, attributes);
  std::tie(problem.left, problem.right) = window_of(kPagedOp, attributes);
  static_cast<ScoreOptions&>(problem) = score_options(kPagedOp, inputs, attributes,
                                                      {.batch = problem.batch,
                                                       .heads = problem.heads,
                                                       .key_heads = problem.keys.heads,
                                                       .head_dim = problem.head_dim,
                                                       .slopes = kPagedSlopes,
                                                       .sinks = kPagedSinks,
                                                       .key_scale = {kPagedKeyScale, "k_scale"},
                                                       .value_scale = {kPagedValueScale, "v_scale"}});
  problem.num_splits = num_splits_of(kPagedOp, attributes);
  problem.checks_bounds = attributes.get_bool("check_bounds");
  if (problem.checks_bounds && problem.is_list)
    throw_value_error(
        fmt::format("op '{}': attribute 'check_bounds' is true, expected false where there is a 'page_indptr': only "
                    "tables of a row for each request are checked",
                    kPagedOp));
  return problem;
}

PagedTable PagedProblem::table(const CallInputs& inputs) const {
  const TensorView* const starts = inputs.find(kPageStarts);
  return {inputs[kBlockTable],
          inputs[kLengths],
          batch,
          keys.page,
          keys.num_blocks,
          most_tokens,
          starts == nullptr ? std::nullopt : std::optional(*starts)};
}

std::vector<TensorMeta> infer_paged(const CallInputs& inputs, const Attributes& attributes) {
  const PagedProblem problem = paged_problem(inputs, attributes);
  Dims out = inputs[kPagedQuery].shape;
  out[3] = problem.values.width;
  std::vector<TensorMeta> outputs = {{inputs[kPagedQuery].dtype, out}};
  if (problem.returns_lse) outputs.push_back({DType::f32, {problem.batch, problem.heads, problem.queries}});
  return outputs;
}

PagedCall paged_call(const OpCall& call) {
  PagedCall result;
  result.problem = paged_problem(call.inputs, call.attributes);
  const PagedProblem& problem = result.problem;
  static_cast<PagesCall&>(result) = PagesCall(call, kKeyCache, problem.table(call.inputs));

  ops::PagedAttentionIteration& it = result.iteration;
  it = {};
  it.queries = problem.queries;
  it.group = static_cast<int>(problem.group());
  it.most_tokens = problem.most_tokens;
  it.left = std::min(problem.left, kMostCounted);
  it.right = problem.is_causal ? 0 : std::min(problem.right, kMostCounted);
  set_scores(problem, it);
  it.q = query_strides(call.inputs[kPagedQuery]);
  it.out = query_strides(call.outputs[0]);
  it.k = kv_cache::paged_cache(call.inputs[kKeyCache], problem.layout);
  it.v = kv_cache::paged_cache(call.inputs[kValueCache], problem.layout);
  result.set_strides(it);
  if (const TensorView* const starts = call.inputs.find(kPageStarts)) {
    it.all_pages = problem.keys.num_blocks == 0 ? 0 : call.inputs[kBlockTable].shape[0];
    it.start_stride = step(*starts, 0);
  }
  result.keys = call.inputs[kKeyCache].dtype;
  if (problem.sinks != nullptr) result.sink = problem.sinks->dtype;
  set_form(result);
  return result;
}

}  // namespace kiln::attention
