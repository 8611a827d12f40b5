#pragma once

#include <cstdint>
#include <vector>

#include "ops/kv_cache/paged_call.hpp"
#include "ops/op_spec.hpp"
#include "ops/rope/problem.hpp"

namespace kiln::rope {

inline constexpr const char* kAppendOp = "rope_append";

/// The inputs of rope_append, in their order.
enum AppendInput : std::uint8_t {
  kQuery,
  kKey,
  kValue,
  kKeyCache,
  kValueCache,
  kSlots,
  kAppendCos,
  kAppendSin,
  kAppendPositions
};

/// A call of rope_append, checked.
struct AppendProblem {
  RopeProblem rotation;  ///< of q
  kv_cache::PageLayout layout = kv_cache::PageLayout::nhd;
};

/// UsageError as rope_problem's and kv_append's.
AppendProblem append_problem(const CallInputs& inputs, const Attributes& attributes);

std::vector<TensorMeta> infer_append(const CallInputs& inputs, const Attributes& attributes);

}  // namespace kiln::rope
