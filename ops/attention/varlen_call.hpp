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
  kVarlenSinks
};

/// A call of attention_varlen, checked and named.
struct VarlenProblem : ScoreOptions {
  std::int64_t sequences = 0, queries = 0, keys = 0;  ///< rows of q, and of k and v
  std::int64_t heads = 0, key_heads = 0, head_dim = 0, value_dim = 0;
  std::int64_t max_queries = 0, max_keys = 0;  ///< of a sequence
  bool is_causal = false, is_top_left = false;
  std::int64_t left = -1, right = -1;  ///< of the window; -1: all keys

  std::int64_t group() const { return key_heads == 0 ? 1 : heads / key_heads; }
};

/// UsageError: value for shapes that do not fit each other and attributes out of range; type for dtypes that do not.
VarlenProblem varlen_problem(const CallInputs& inputs, const Attributes& attributes);
std::vector<TensorMeta> infer_varlen(const CallInputs& inputs, const Attributes& attributes);

/// Where sequence `number` begins among `rows`: the reference's, of tensors in the host's memory.
std::int64_t sequence_start(const TensorView& starts, std::int64_t number, std::int64_t rows);

/// A call as the kernel sees it.
struct VarlenCall {
  VarlenProblem problem;
  DType dtype = DType::f32, sink = DType::f32, starts = DType::i32;
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
