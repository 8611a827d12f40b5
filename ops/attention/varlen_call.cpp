#include "ops/attention/varlen_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/errors.hpp"
#include "ops/attention/strides.hpp"
#include "ops/common/element.hpp"

namespace kiln::attention {
namespace {

void set_packed_extents(const CallInputs& inputs, VarlenProblem& problem) {
  const TensorView &q = inputs[kPackedQuery], &k = inputs[kPackedKey], &v = inputs[kPackedValue];
  const std::tuple<std::string_view, const TensorView&, std::string_view> named[] = {
      {"q", q, "[Tq, H, D]"}, {"k", k, "[Tk, Hk, D]"}, {"v", v, "[Tk, Hk, Dv]"}};
  for (const auto& [name, view, expected] : named) {
    if (view.ndim() != 3)
      throw_value_error(fmt::format("op '{}': input '{}' has shape {}, expected {}, sequences one after the other",
                                    kVarlenOp, name, to_string(view.shape), expected));
    check_same_dtype(kVarlenOp, name, view, q);
  }
  check_extent(kVarlenOp, "v", "keys", v.shape[0], "k", k.shape[0]);
  check_extent(kVarlenOp, "v", "heads", v.shape[1], "k", k.shape[1]);
  check_extent(kVarlenOp, "k", "numbers a head", k.shape[2], "q", q.shape[2]);
  check_head_dim(kVarlenOp, "q", q.shape[2]);
  check_head_dim(kVarlenOp, "v", v.shape[2]);
  problem.queries = q.shape[0];
  problem.keys = k.shape[0];
  problem.heads = q.shape[1];
  problem.key_heads = k.shape[1];
  problem.head_dim = q.shape[2];
  problem.value_dim = v.shape[2];
  check_groups(kVarlenOp, "k", problem.heads, problem.key_heads);
  for (const auto& [name, view, expected] : named)
    if (view.shape[0] > std::numeric_limits<std::int32_t>::max())
      throw_value_error(
          fmt::format("op '{}': input '{}' has {} rows, expected less than 2^31", kVarlenOp, name, view.shape[0]));
}

void set_sequences(const CallInputs& inputs, VarlenProblem& problem) {
  const TensorView &queries = inputs[kQueryStarts], &keys = inputs[kKeyStarts];
  if (queries.ndim() != 1 || queries.shape[0] < 1)
    throw_value_error(
        fmt::format("op '{}': input 'cu_seqlens_q' has shape {}, expected [B + 1], where each sequence begins and the "
                    "last one ends",
                    kVarlenOp, to_string(queries.shape)));
  if (keys.shape != queries.shape)
    throw_value_error(fmt::format("op '{}': input 'cu_seqlens_k' has shape {}, expected {}, as 'cu_seqlens_q' has",
                                  kVarlenOp, to_string(keys.shape), to_string(queries.shape)));
  if (keys.dtype != queries.dtype)
    throw_type_error(fmt::format("op '{}': input 'cu_seqlens_k' is {}, expected {}, as 'cu_seqlens_q' is; cast it",
                                 kVarlenOp, name(keys.dtype), name(queries.dtype)));
  problem.sequences = queries.shape[0] - 1;
}

std::int64_t most_of(const Attributes& attributes, std::string_view name) {
  const std::int64_t most = attributes.get_int(name);
  if (most < 0)
    throw_value_error(fmt::format("op '{}': attribute '{}' is {}, expected the length of the longest sequence",
                                  kVarlenOp, name, most));
  return most;
}

void set_seen(const Attributes& attributes, VarlenProblem& problem) {
  const std::string& causal = attributes.get_string("causal");
  if (causal != "none" && causal != "top_left" && causal != "bottom_right")
    throw_value_error(
        fmt::format("op '{}': attribute 'causal' is \"{}\", expected \"none\", \"top_left\" (torch's is_causal) or "
                    "\"bottom_right\" (FlashAttention's causal)",
                    kVarlenOp, causal));
  problem.is_causal = causal != "none";
  problem.is_top_left = causal == "top_left";
  std::tie(problem.left, problem.right) = window_of(kVarlenOp, attributes);
}

ops::AttentionStrides packed_strides(const TensorView& view) {
  return {0, step(view, 1), step(view, 0), element_step(view)};
}

}  // namespace

VarlenProblem varlen_problem(const CallInputs& inputs, const Attributes& attributes) {
  VarlenProblem problem;
  set_packed_extents(inputs, problem);
  set_sequences(inputs, problem);
  set_seen(attributes, problem);
  problem.max_queries = std::min(most_of(attributes, "max_seqlen_q"), problem.queries);
  problem.max_keys = std::min(most_of(attributes, "max_seqlen_k"), problem.keys);
  static_cast<ScoreOptions&>(problem) = score_options(kVarlenOp, inputs, attributes,
                                                      {.batch = problem.sequences,
                                                       .heads = problem.heads,
                                                       .head_dim = problem.head_dim,
                                                       .slopes = kVarlenSlopes,
                                                       .sinks = kVarlenSinks});
  return problem;
}

std::vector<TensorMeta> infer_varlen(const CallInputs& inputs, const Attributes& attributes) {
  const VarlenProblem problem = varlen_problem(inputs, attributes);
  std::vector<TensorMeta> outputs = {{inputs[kPackedQuery].dtype, {problem.queries, problem.heads, problem.value_dim}}};
  if (problem.returns_lse) outputs.push_back({DType::f32, {problem.heads, problem.queries}});
  return outputs;
}

std::int64_t sequence_start(const TensorView& starts, std::int64_t number, std::int64_t rows) {
  return std::clamp<std::int64_t>(common::load_at<std::int64_t>(starts, number * starts.strides[0]), 0, rows);
}

BlockWork VarlenCall::work() const {
  BlockWork work{problem.max_queries, problem.max_keys, problem.sequences * problem.heads,
                 std::nullopt,        std::nullopt,     processors};
  const std::int64_t diagonal = problem.is_top_left ? 0 : problem.max_keys - problem.max_queries;
  if (form.has_low) work.low = diagonal - iteration.left;
  if (form.has_high) work.high = diagonal + iteration.right;
  return work;
}

VarlenCall varlen_call(const OpCall& call) {
  VarlenCall result;
  result.problem = varlen_problem(call.inputs, call.attributes);
  const VarlenProblem& problem = result.problem;
  result.dtype = call.inputs[kPackedQuery].dtype;
  result.starts = call.inputs[kQueryStarts].dtype;
  result.processors = call.processors;

  ops::VarlenIteration& it = result.iteration;
  it = {};
  it.each.group = static_cast<int>(problem.group());
  it.each.scale = static_cast<float>(problem.scale);
  it.each.softcap = static_cast<float>(problem.softcap);
  it.each.q = packed_strides(call.inputs[kPackedQuery]);
  it.each.k = packed_strides(call.inputs[kPackedKey]);
  it.each.v = packed_strides(call.inputs[kPackedValue]);
  it.each.out = packed_strides(call.outputs[0]);
  if (problem.returns_lse) {
    it.each.lse_head = step(call.outputs[1], 0);
    it.each.lse_row = step(call.outputs[1], 1);
  }
  if (problem.slopes != nullptr) {
    it.each.slope_batch = problem.slopes->ndim() == 2 ? step(*problem.slopes, 0) : 0;
    it.each.slope_head = step(*problem.slopes, problem.slopes->ndim() - 1);
  }
  if (problem.sinks != nullptr) {
    result.sink = problem.sinks->dtype;
    it.each.sink_head = step(*problem.sinks, 0);
  }
  it.all_queries = problem.queries;
  it.all_keys = problem.keys;
  it.max_queries = problem.max_queries;
  it.sequences = problem.sequences;
  it.q_start = step(call.inputs[kQueryStarts], 0);
  it.k_start = step(call.inputs[kKeyStarts], 0);
  it.is_top_left = problem.is_top_left;
  // Wider than all there is makes no difference, and cannot overflow.
  const std::int64_t most = problem.queries + problem.keys;
  const bool has_left = problem.left >= 0 && problem.left < most,
             has_right = problem.right >= 0 && problem.right < most;
  it.left = has_left ? problem.left : 0;
  it.right = has_right && !problem.is_causal ? problem.right : 0;

  ops::AttentionForm& form = result.form;
  form = {};
  form.head_dim = static_cast<int>(problem.head_dim);
  form.value_dim = static_cast<int>(problem.value_dim);
  form.is_dense =
      it.each.q.element == 1 && it.each.k.element == 1 && it.each.v.element == 1 && it.each.out.element == 1;
  form.has_low = has_left;
  form.has_high = problem.is_causal || has_right;
  form.checks_keys = true;
  form.caps = problem.softcap > 0;
  form.has_slopes = problem.slopes != nullptr;
  form.has_sinks = problem.sinks != nullptr;
  form.returns_lse = problem.returns_lse;
  form.scales_first = form.caps || form.has_slopes || !(problem.scale > 0);
  return result;
}

}  // namespace kiln::attention
