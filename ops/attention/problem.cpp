#include "ops/attention/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/errors.hpp"
#include "ops/attention/number_types.hpp"

namespace kiln::attention {
namespace {

bool is_heads_first(const Attributes& attributes) {
  const std::string& layout = attributes.get_string("layout");
  if (layout != "BSHD" && layout != "BHSD")
    throw_value_error(fmt::format(
        "op '{}': attribute 'layout' is \"{}\", expected \"BSHD\" ([batch, length, heads, head dim], FlashAttention's) "
        "or \"BHSD\" (torch's)",
        kOp, layout));
  return layout == "BHSD";
}

void check_rank(std::string_view name, const TensorView& view, bool heads_first) {
  if (view.ndim() != 4)
    throw_value_error(fmt::format("op '{}': input '{}' has shape {}, expected four dimensions, {}", kOp, name,
                                  to_string(view.shape), heads_first ? "[B, H, S, D]" : "[B, S, H, D]"));
}

/// k and v beside q: one batch, one length and one number of heads, by which q's is a multiple.
void set_extents(const CallInputs& inputs, AttentionProblem& problem) {
  const TensorView &q = inputs[kQuery], &k = inputs[kKey], &v = inputs[kValue];
  const int rows = problem.row_axis(), heads = problem.head_axis();
  const std::pair<std::string_view, const TensorView&> named[] = {{"q", q}, {"k", k}, {"v", v}};
  for (const auto& [name, view] : named) check_rank(name, view, problem.heads_first);
  check_key_types(kOp, {"k", "v"}, q, k, v);
  check_extent(kOp, "k", "requests", k.shape[0], "q", q.shape[0]);
  check_extent(kOp, "v", "requests", v.shape[0], "q", q.shape[0]);
  check_extent(kOp, "v", "keys", v.shape[rows], "k", k.shape[rows]);
  check_extent(kOp, "v", "heads", v.shape[heads], "k", k.shape[heads]);
  check_extent(kOp, "k", "numbers a head", k.shape[3], "q", q.shape[3]);
  check_head_dim(kOp, "q", q.shape[3]);
  check_head_dim(kOp, "v", v.shape[3]);
  problem.batch = q.shape[0];
  problem.heads = q.shape[heads];
  problem.key_heads = k.shape[heads];
  problem.queries = q.shape[rows];
  problem.keys = k.shape[rows];
  problem.head_dim = q.shape[3];
  problem.value_dim = v.shape[3];
  check_groups(kOp, "k", problem.heads, problem.key_heads);
}

void set_visible(const Attributes& attributes, AttentionProblem& problem) {
  const std::string& causal = attributes.get_string("causal");
  const bool is_causal = causal != "none";
  if (is_causal && causal != "top_left" && causal != "bottom_right")
    throw_value_error(
        fmt::format("op '{}': attribute 'causal' is \"{}\", expected \"none\", \"top_left\" (torch's is_causal) or "
                    "\"bottom_right\" (FlashAttention's causal)",
                    kOp, causal));
  const auto [left, right] = window_of(kOp, attributes);
  problem.diagonal = causal == "top_left" ? 0 : problem.keys - problem.queries;
  // Wider than all there is makes no difference, and cannot overflow.
  const std::int64_t most = problem.queries + problem.keys;
  if (left >= 0 && left < most) problem.low = problem.diagonal - left;
  if (is_causal)
    problem.high = problem.diagonal;
  else if (right >= 0 && right < most)
    problem.high = problem.diagonal + right;
}

void check_mask(const TensorView& mask, const TensorView& q, const AttentionProblem& problem) {
  const Dims scores = {problem.batch, problem.heads, problem.queries, problem.keys};
  bool fits = mask.ndim() <= 4;
  for (int from_end = 1; fits && from_end <= mask.ndim(); ++from_end) {
    const std::int64_t extent = mask.shape[mask.ndim() - from_end];
    fits = extent == 1 || extent == scores[4 - from_end];
  }
  if (!fits)
    throw_value_error(
        fmt::format("op '{}': input 'attn_mask' has shape {}, which does not broadcast to the scores' {}, "
                    "[batch, heads, queries, keys]",
                    kOp, to_string(mask.shape), to_string(scores)));
  if (mask.dtype != DType::bool_ && mask.dtype != DType::f32 && mask.dtype != q.dtype)
    throw_type_error(fmt::format("op '{}': input 'attn_mask' is {}, expected bool (True: seen), f32{}{} (added)", kOp,
                                 name(mask.dtype), q.dtype == DType::f32 ? "" : " or q's ",
                                 q.dtype == DType::f32 ? "" : name(q.dtype)));
}

}  // namespace

std::int64_t AttentionProblem::first_key(std::int64_t query) const {
  return low.has_value() ? std::max<std::int64_t>(query + *low, 0) : 0;
}

std::int64_t AttentionProblem::end_key(std::int64_t query) const {
  return high.has_value() ? std::min(query + *high + 1, keys) : keys;
}

double AttentionProblem::visible_pairs() const {
  // The keys before query i + offset, of all queries together: none at first, then one more with each, then all.
  const auto keys_before = [&](std::int64_t offset) {
    const std::int64_t first = std::clamp<std::int64_t>(-offset, 0, queries);
    const std::int64_t last = std::clamp<std::int64_t>(keys - offset, first, queries);
    const auto some = static_cast<double>(last - first), all = static_cast<double>(queries - last);
    return some * (static_cast<double>(first + last - 1) / 2 + static_cast<double>(offset)) +
           all * static_cast<double>(keys);
  };
  const double seen =
      high.has_value() ? keys_before(*high + 1) : static_cast<double>(queries) * static_cast<double>(keys);
  return seen - (low.has_value() ? keys_before(*low) : 0);
}

double AttentionProblem::flops() const {
  return 2 * static_cast<double>(head_dim + value_dim) * visible_pairs() * static_cast<double>(batch * heads);
}

AttentionProblem attention_problem(const CallInputs& inputs, const Attributes& attributes) {
  AttentionProblem problem;
  problem.heads_first = is_heads_first(attributes);
  set_extents(inputs, problem);
  set_visible(attributes, problem);
  static_cast<ScoreOptions&>(problem) = score_options(kOp, inputs, attributes,
                                                      {.batch = problem.batch,
                                                       .heads = problem.heads,
                                                       .key_heads = problem.key_heads,
                                                       .head_dim = problem.head_dim,
                                                       .slopes = kSlopes,
                                                       .sinks = kSinks,
                                                       .query_scale = {kQueryScale, "q_descale"},
                                                       .key_scale = {kKeyScale, "k_descale"},
                                                       .value_scale = {kValueScale, "v_descale"}});
  problem.mask = inputs.find(kMask);
  if (problem.mask != nullptr) check_mask(*problem.mask, inputs[kQuery], problem);
  return problem;
}

std::vector<TensorMeta> infer(const CallInputs& inputs, const Attributes& attributes) {
  const AttentionProblem problem = attention_problem(inputs, attributes);
  Dims out = inputs[kQuery].shape;
  out[3] = problem.value_dim;
  std::vector<TensorMeta> outputs = {{out_dtype(kOp, attributes, inputs[kQuery].dtype), out}};
  if (problem.returns_lse) outputs.push_back({DType::f32, {problem.batch, problem.heads, problem.queries}});
  return outputs;
}

}  // namespace kiln::attention
