#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace kiln::attention
