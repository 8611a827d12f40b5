#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/block_times.hpp"
#include "ops/attention/iteration_varlen.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

inline constexpr const char* kVarlenOp = "attention_varlen";

/// The inputs of attention_varlen, in their order.
enum VarlenInput : std::uint8_t {
  kPackedQuery,
  kPackedKey,
  kPackedValue,
  kQueryStarts,
  kKeyStarts,
  kVarlenSlopes,
  kVarlenSinks,
  kUsedKeys,
  kVarlenTable,
  kVarlenQueryScale,
  kVarlenKeyScale,
  kVarlenValueScale
};

/// A call of attention_varlen, checked and named.
struct VarlenProblem : ScoreOptions {
  std::int64_t sequences = 0, queries = 0;  ///< queries: rows of q
  std::int64_t keys = 0;                    ///< rows of k and v, or what a sequence's row of the table has room for
  std::int64_t page = 0, num_blocks = 0;    ///< page 0: not in pages
  std::int64_t heads = 0, key_heads = 0, head_dim = 0, value_dim = 0;
  std::int64_t max_queries = 0, max_keys = 0;  ///< of a sequence
  bool is_causal = false, is_top_left = false;
  std::int64_t left = -1, right = -1;  ///< of the window; -1: all keys

  std::int64_t group() const { return key_heads == 0 ? 1 : heads / key_heads; }
  bool in_pages() const { return page > 0; }
};

/// UsageError: value for shapes that do not fit each other and attributes out of range; type for dtypes that do not.
VarlenProblem varlen_problem(const CallInputs& inputs, const Attributes& attributes);
std::vector<TensorMeta> infer_varlen(const CallInputs& inputs, const Attributes& attributes);

/// A sequence's rows among all.
struct RowRange {
  std::int64_t begin = 0, end = 0;  ///< end may lie before begin
};
/// Of sequence `number`: as the reference has them, of tensors in the host's memory. Keys in pages begin at 0.
RowRange sequence_queries(const CallInputs& inputs, const VarlenProblem& problem, std::int64_t number);
RowRange sequence_keys(const CallInputs& inputs, const VarlenProblem& problem, std::int64_t number);

/// A call as the kernel sees it.
struct VarlenCall {
  VarlenProblem problem;
  DType dtype = DType::f32, keys = DType::f32, out = DType::f32;  ///< of q, of k and v
  DType sink = DType::f32, index = DType::i32;
  bool has_key_starts = false, has_used_keys = false;
  ops::AttentionForm form;
  ops::VarlenIteration iteration;
  std::int64_t processors = 0;  ///< multiprocessors, 0 if unknown

  /// The number of an input among the call's tensors, outputs first; -1 where it is not there.
  int tensor(VarlenInput input, bool is_there = true) const {
    return is_there ? (problem.returns_lse ? 2 : 1) + input : -1;
  }
  /// Of sequences that are all as long as the longest.
  BlockWork work() const;
};
VarlenCall varlen_call(const OpCall& call);

}  // namespace kiln::attention
