#include "ops/attention/varlen_call.hpp"

#include <optional>

#include "ops/attention/paged_contract.hpp"
#include "ops/attention/score_form.hpp"
#include "ops/attention/strides.hpp"
#include "ops/kv_cache/paged_call.hpp"

namespace kiln::attention {
namespace {

ops::AttentionStrides packed_strides(const TensorView& view) {
  return {0, step(view, 1), step(view, 0), element_step(view)};
}

ops::AttentionStrides paged_strides(const ops::PagedCache& cache) {
  return {0, cache.head_stride, cache.place_stride, cache.element_stride};
}

}  // namespace

BlockWork VarlenCall::work() const {
  BlockWork work{problem.max_queries, problem.max_keys, problem.sequences * problem.heads,
                 std::nullopt,        std::nullopt,     processors};
  const std::int64_t diagonal = problem.is_top_left ? 0 : problem.max_keys - problem.max_queries;
  work.in_boxes = !problem.in_pages() && in_boxes(iteration.each.k, itemsize_bytes(keys)) &&
                  in_boxes(iteration.each.v, itemsize_bytes(keys));
  if (form.has_low) work.low = diagonal - iteration.left;
  if (form.has_high) work.high = diagonal + iteration.right;
  return work;
}

VarlenCall varlen_call(const OpCall& call) {
  VarlenCall result;
  result.problem = varlen_problem(call.inputs, call.attributes);
  const VarlenProblem& problem = result.problem;
  result.dtype = call.inputs[kPackedQuery].dtype;
  result.keys = call.inputs[kPackedKey].dtype;
  result.out = call.outputs[0].dtype;
  result.index = call.inputs[kQueryStarts].dtype;
  const TensorView *const key_starts = call.inputs.find(kKeyStarts), *const used = call.inputs.find(kUsedKeys);
  result.has_key_starts = key_starts != nullptr;
  result.has_used_keys = used != nullptr;
  result.processors = call.processors;

  ops::VarlenIteration& it = result.iteration;
  it = {};
  it.each.group = static_cast<int>(problem.group());
  set_scores(problem, it.each);
  it.each.q = packed_strides(call.inputs[kPackedQuery]);
  if (problem.in_pages()) {
    const TensorView& table = call.inputs[kVarlenTable];
    it.k_cache = kv_cache::paged_cache(call.inputs[kPackedKey], kv_cache::PageLayout::nhd);
    it.v_cache = kv_cache::paged_cache(call.inputs[kPackedValue], kv_cache::PageLayout::nhd);
    it.each.k = paged_strides(it.k_cache);
    it.each.v = paged_strides(it.v_cache);
    it.table_sequence = step(table, 0);
    it.table_entry = step(table, 1);
    it.most_keys = problem.keys;
  } else {
    it.each.k = packed_strides(call.inputs[kPackedKey]);
    it.each.v = packed_strides(call.inputs[kPackedValue]);
  }
  it.each.out = packed_strides(call.outputs[0]);
  if (problem.returns_lse) {
    it.each.lse_head = step(call.outputs[1], 0);
    it.each.lse_row = step(call.outputs[1], 1);
  }
  if (problem.sinks != nullptr) result.sink = problem.sinks->dtype;
  it.all_queries = problem.queries;
  it.all_keys = problem.in_pages() ? kMostCounted : problem.keys;
  it.max_queries = problem.max_queries;
  it.sequences = problem.sequences;
  it.q_start = step(call.inputs[kQueryStarts], 0);
  if (key_starts != nullptr) it.k_start = step(*key_starts, 0);
  if (used != nullptr) it.used = step(*used, 0);
  it.is_top_left = problem.is_top_left;
  // Wider than all there is makes no difference, and cannot overflow.
  const std::int64_t most = problem.queries + problem.keys;
  const bool has_left = problem.left >= 0 && problem.left < most,
             has_right = problem.right >= 0 && problem.right < most;
  it.left = has_left ? problem.left : 0;
  it.right = has_right && !problem.is_causal ? problem.right : 0;

  ops::AttentionForm& form = result.form;
  form = {};
  set_form(problem, form);
  form.head_dim = static_cast<int>(problem.head_dim);
  form.value_dim = static_cast<int>(problem.value_dim);
  form.is_dense =
      it.each.q.element == 1 && it.each.k.element == 1 && it.each.v.element == 1 && it.each.out.element == 1;
  form.has_low = has_left;
  form.has_high = problem.is_causal || has_right;
  form.checks_keys = true;
  return result;
}

}  // namespace kiln::attention
