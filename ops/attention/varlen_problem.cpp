#include "ops/attention/varlen_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>

#include "core/errors.hpp"
#include "ops/attention/number_types.hpp"
#include "ops/attention/paged_contract.hpp"
#include "ops/common/element.hpp"
#include "ops/kv_cache/paged_call.hpp"

namespace kiln::attention {
namespace {

/// k and v as [rows, H, D], whether these are packed or pages of tokens.
void set_key_extents(const TensorView& k, const TensorView& v, VarlenProblem& problem) {
  const int heads = problem.in_pages() ? 2 : 1;
  check_extent(kVarlenOp, "v", problem.in_pages() ? "blocks" : "keys", v.shape[0], "k", k.shape[0]);
  if (problem.in_pages()) check_extent(kVarlenOp, "v", "tokens a block", v.shape[1], "k", k.shape[1]);
  check_extent(kVarlenOp, "v", "heads", v.shape[heads], "k", k.shape[heads]);
  check_extent(kVarlenOp, "k", "numbers a head", k.shape[heads + 1], "q", problem.head_dim);
  check_head_dim(kVarlenOp, "v", v.shape[heads + 1]);
  problem.key_heads = k.shape[heads];
  problem.value_dim = v.shape[heads + 1];
  check_groups(kVarlenOp, "k", problem.heads, problem.key_heads);
}

void check_packed_rank(std::string_view name, const TensorView& view, int rank, std::string_view expected) {
  if (view.ndim() != rank)
    throw_value_error(
        fmt::format("op '{}': input '{}' has shape {}, expected {}", kVarlenOp, name, to_string(view.shape), expected));
}

void check_rows(std::string_view name, std::int64_t rows) {
  if (rows > std::numeric_limits<std::int32_t>::max())
    throw_value_error(fmt::format("op '{}': input '{}' has {} rows, expected less than 2^31", kVarlenOp, name, rows));
}

void set_extents(const CallInputs& inputs, VarlenProblem& problem) {
  const TensorView &q = inputs[kPackedQuery], &k = inputs[kPackedKey], &v = inputs[kPackedValue];
  check_packed_rank("q", q, 3, "[Tq, H, D], sequences one after the other");
  check_head_dim(kVarlenOp, "q", q.shape[2]);
  problem.queries = q.shape[0];
  problem.heads = q.shape[1];
  problem.head_dim = q.shape[2];
  check_rows("q", problem.queries);
  const TensorView* const table = inputs.find(kVarlenTable);
  if (table == nullptr) {
    check_packed_rank("k", k, 3, "[Tk, Hk, D], sequences one after the other; pages need a 'block_table'");
    check_packed_rank("v", v, 3, "[Tk, Hk, Dv], sequences one after the other");
    problem.keys = k.shape[0];
    check_rows("k", problem.keys);
  } else {
    check_packed_rank("k", k, 4, "[blocks, page, Hk, D], as there is a 'block_table'");
    check_packed_rank("v", v, 4, "[blocks, page, Hk, Dv], as there is a 'block_table'");
    check_packed_rank("block_table", *table, 2, "[B, max_pages]");
    problem.num_blocks = k.shape[1] == 0 ? 0 : k.shape[0];
    problem.page = std::max<std::int64_t>(k.shape[1], 1);
    problem.keys = problem.num_blocks == 0 ? 0 : table->shape[1] * problem.page;
    if (problem.keys > kMostCounted)
      throw_value_error(fmt::format(
          "op '{}': input 'block_table' of shape {} has room for {} tokens a sequence, expected no more than {}",
          kVarlenOp, to_string(table->shape), problem.keys, kMostCounted));
  }
  check_key_types(kVarlenOp, {"k", "v"}, q, k, v);
  set_key_extents(k, v, problem);
}

/// Inputs that say where sequences are: as many as `starts` has sequences, of its type.
void check_index(std::string_view name, const TensorView& view, std::int64_t count, const TensorView& starts) {
  if (view.ndim() == 0 || view.shape[0] != count)
    throw_value_error(fmt::format("op '{}': input '{}' has shape {}, expected {}{}, for 'cu_seqlens_q' has {}",
                                  kVarlenOp, name, to_string(view.shape), count,
                                  view.ndim() == 2 ? " rows" : " numbers", to_string(starts.shape)));
  if (view.dtype != starts.dtype)
    throw_type_error(fmt::format("op '{}': input '{}' is {}, expected {}, as 'cu_seqlens_q' is; cast it", kVarlenOp,
                                 name, kiln::name(view.dtype), kiln::name(starts.dtype)));
}

void set_sequences(const CallInputs& inputs, VarlenProblem& problem) {
  const TensorView& starts = inputs[kQueryStarts];
  const TensorView *const keys = inputs.find(kKeyStarts), *const used = inputs.find(kUsedKeys),
                          *const table = inputs.find(kVarlenTable);
  if (starts.ndim() != 1 || starts.shape[0] < 1)
    throw_value_error(
        fmt::format("op '{}': input 'cu_seqlens_q' has shape {}, expected [B + 1], where each sequence begins and the "
                    "last one ends",
                    kVarlenOp, to_string(starts.shape)));
  problem.sequences = starts.shape[0] - 1;
  if (keys == nullptr && (table == nullptr || used == nullptr))
    throw_value_error(fmt::format(
        "op '{}': input 'cu_seqlens_k' is left out, expected [{}], where each sequence's keys begin and the last ones "
        "end; only with a 'block_table' may 'seqused_k' take its place",
        kVarlenOp, problem.sequences + 1));
  if (keys != nullptr) {
    check_packed_rank("cu_seqlens_k", *keys, 1, "[B + 1], as 'cu_seqlens_q'");
    check_index("cu_seqlens_k", *keys, problem.sequences + 1, starts);
  }
  if (used != nullptr) {
    check_packed_rank("seqused_k", *used, 1, "[B], a number of keys for each sequence");
    check_index("seqused_k", *used, problem.sequences, starts);
  }
  if (table != nullptr) check_index("block_table", *table, problem.sequences, starts);
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

/// Of numbers in the host's memory.
std::int64_t index_at(const TensorView& numbers, std::int64_t place, std::int64_t most) {
  return std::clamp<std::int64_t>(common::load_at<std::int64_t>(numbers, place * numbers.strides[0]), 0, most);
}

}  // namespace

VarlenProblem varlen_problem(const CallInputs& inputs, const Attributes& attributes) {
  VarlenProblem problem;
  set_extents(inputs, problem);
  set_sequences(inputs, problem);
  set_seen(attributes, problem);
  problem.max_queries = std::min(most_of(attributes, "max_seqlen_q"), problem.queries);
  problem.max_keys = std::min(most_of(attributes, "max_seqlen_k"), problem.keys);
  static_cast<ScoreOptions&>(problem) = score_options(kVarlenOp, inputs, attributes,
                                                      {.batch = problem.sequences,
                                                       .heads = problem.heads,
                                                       .key_heads = problem.key_heads,
                                                       .head_dim = problem.head_dim,
                                                       .slopes = kVarlenSlopes,
                                                       .sinks = kVarlenSinks,
                                                       .query_scale = {kVarlenQueryScale, "q_descale"},
                                                       .key_scale = {kVarlenKeyScale, "k_descale"},
                                                       .value_scale = {kVarlenValueScale, "v_descale"}});
  return problem;
}

std::vector<TensorMeta> infer_varlen(const CallInputs& inputs, const Attributes& attributes) {
  const VarlenProblem problem = varlen_problem(inputs, attributes);
  std::vector<TensorMeta> outputs = {{out_dtype(kVarlenOp, attributes, inputs[kPackedQuery].dtype),
                                      {problem.queries, problem.heads, problem.value_dim}}};
  if (problem.returns_lse) outputs.push_back({DType::f32, {problem.heads, problem.queries}});
  return outputs;
}

RowRange sequence_queries(const CallInputs& inputs, const VarlenProblem& problem, std::int64_t number) {
  return {index_at(inputs[kQueryStarts], number, problem.queries),
          index_at(inputs[kQueryStarts], number + 1, problem.queries)};
}

RowRange sequence_keys(const CallInputs& inputs, const VarlenProblem& problem, std::int64_t number) {
  RowRange rows{0, problem.keys};
  if (const TensorView* const starts = inputs.find(kKeyStarts)) {
    const std::int64_t most = problem.in_pages() ? kMostCounted : problem.keys;
    rows = {index_at(*starts, number, most), index_at(*starts, number + 1, most)};
    if (problem.in_pages()) rows = {0, std::min(rows.end - rows.begin, problem.keys)};
  }
  if (const TensorView* const used = inputs.find(kUsedKeys))
    rows.end = rows.begin + index_at(*used, number, std::max<std::int64_t>(rows.end - rows.begin, 0));
  return rows;
}

}  // namespace kiln::attention
