#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/attention/shared_contract.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

inline constexpr const char* kOp = "attention";

/// The inputs, in their order.
enum Input : std::uint8_t { kQuery, kKey, kValue, kMask, kSlopes, kSinks, kQueryScale, kKeyScale, kValueScale };

/// A call of attention, checked and named.
struct AttentionProblem : ScoreOptions {
  bool heads_first = false;  ///< [B, H, S, D]; else [B, S, H, D]
  std::int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, head_dim = 0, value_dim = 0;
  /// Query i stands at key i + diagonal, and sees keys from i + low to i + high.
  std::int64_t diagonal = 0;
  std::optional<std::int64_t> low, high;
  const TensorView* mask = nullptr;  ///< null where the call has none

  int row_axis() const { return heads_first ? 2 : 1; }
  int head_axis() const { return heads_first ? 1 : 2; }
  /// Query heads that share a head of keys and values.
  std::int64_t group() const { return key_heads == 0 ? 1 : heads / key_heads; }
  /// Keys that query i sees by its place: from first_key(i) to before end_key(i), which may be no more than that.
  std::int64_t first_key(std::int64_t query) const;
  std::int64_t end_key(std::int64_t query) const;
  /// Pairs of a query and a key that it sees by its place, in one head.
  double visible_pairs() const;
  /// Of both products of all these pairs, in all heads.
  double flops() const;
};

/// UsageError: value for shapes that do not fit each other and attributes out of range; type for dtypes that do not.
AttentionProblem attention_problem(const CallInputs& inputs, const Attributes& attributes);

std::vector<TensorMeta> infer(const CallInputs& inputs, const Attributes& attributes);

}  // namespace kiln::attention
