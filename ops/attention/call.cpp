#include "ops/attention/call.hpp"

#include "ops/attention/score_form.hpp"
#include "ops/attention/strides.hpp"

namespace kiln::attention {
namespace {

/// [B, H, S, D] of a tensor of the call.
TensorView heads_first(TensorView view, const AttentionProblem& problem) {
  if (!problem.heads_first) exchange(view, 1, 2);
  return view;
}

ops::AttentionStrides strides_of(const TensorView& view) {
  return {step(view, 0), step(view, 1), step(view, 2), step(view, 3)};
}

/// Of a mask that broadcasts to [batch, heads, queries, keys]: 0 along dimensions that it lacks.
ops::AttentionStrides mask_strides(const TensorView& mask) {
  const auto along = [&](int axis) {
    const int own = axis - (4 - mask.ndim());
    return own < 0 ? 0 : step(mask, own);
  };
  return {along(0), along(1), along(2), along(3)};
}

bool is_dense(const ops::AttentionStrides& strides, std::int64_t dim) {
  return dim == 1 || strides.element == 1;
}

}  // namespace

BlockWork AttentionCall::work() const {
  // Queries of 8 bits, which are multiplied as such, were not measured beside warps that copy.
  const bool are_in_boxes = itemsize_bytes(dtype) > 1 && in_boxes(iteration.k, itemsize_bytes(key.dtype)) &&
                            in_boxes(iteration.v, itemsize_bytes(value.dtype));
  return {problem.queries, problem.keys, problem.batch * problem.heads, problem.low, problem.high,
          processors,      are_in_boxes};
}

void set_key_strides(AttentionCall& call) {
  ops::AttentionIteration& it = call.iteration;
  const AttentionProblem& problem = call.problem;
  it.k = strides_of(call.key);
  it.v = strides_of(call.value);
  call.form.is_dense = is_dense(it.q, problem.head_dim) && is_dense(it.k, problem.head_dim) &&
                       is_dense(it.v, problem.value_dim) && is_dense(it.out, problem.value_dim);
}

AttentionCall attention_call(const OpCall& call) {
  AttentionCall result;
  result.problem = attention_problem(call.inputs, call.attributes);
  const AttentionProblem& problem = result.problem;
  result.dtype = call.inputs[kQuery].dtype;
  result.key = heads_first(call.inputs[kKey], problem);
  result.value = heads_first(call.inputs[kValue], problem);
  result.out = call.outputs[0].dtype;
  result.outputs = static_cast<std::int64_t>(call.outputs.size());
  result.processors = call.processors;

  ops::AttentionIteration& it = result.iteration;
  it = {};
  it.queries = problem.queries;
  it.keys = problem.keys;
  it.group = static_cast<int>(problem.group());
  it.low = problem.low.value_or(0);
  it.high = problem.high.value_or(0);
  it.diagonal = problem.diagonal;
  set_scores(problem, it);
  it.out = strides_of(heads_first(call.outputs[0], problem));
  it.q = strides_of(heads_first(call.inputs[kQuery], problem));
  if (problem.mask != nullptr) {
    result.mask = problem.mask->dtype;
    it.mask = mask_strides(*problem.mask);
  }
  if (problem.returns_lse) {
    const TensorView& lse = call.outputs[1];
    it.lse_batch = step(lse, 0);
    it.lse_head = step(lse, 1);
    it.lse_row = step(lse, 2);
  }
  if (problem.sinks != nullptr) result.sink = problem.sinks->dtype;

  ops::AttentionForm& form = result.form;
  form = {};
  set_form(problem, form);
  form.head_dim = static_cast<int>(problem.head_dim);
  form.value_dim = static_cast<int>(problem.value_dim);
  set_key_strides(result);
  form.has_low = problem.low.has_value();
  form.has_high = problem.high.has_value();
  form.checks_keys = !form.has_high || problem.queries - 1 + it.high >= problem.keys;
  form.has_mask = problem.mask != nullptr;
  form.has_dense_mask = it.mask.element == 1;
  if (form.has_mask && result.mask != DType::bool_) form.scales_first = true;
  return result;
}

}  // namespace kiln::attention
