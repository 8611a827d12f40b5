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
  kAppendPositions,
  kAppendKeyScale,
  kAppendValueScale
};

/// A call of rope_append, checked.
struct AppendProblem {
  RopeProblem rotation;  ///< of q
  kv_cache::PageLayout layout = kv_cache::PageLayout::nhd;
  /// What numbers of key and value are divided by on their way into caches of 8 bits; null: they stay.
  const TensorView* scales[2] = {nullptr, nullptr};
};

/// The scale of a head, of a tensor in the host's memory; 1 without one.
double scale_of_head(const TensorView* scales, std::int64_t head);
/// The largest number of a type of 8 bits, at which what is divided by its scale ends.
double largest_of(DType cache);

/// UsageError as rope_problem's and kv_append's.
AppendProblem append_problem(const CallInputs& inputs, const Attributes& attributes);

std::vector<TensorMeta> infer_append(const CallInputs& inputs, const Attributes& attributes);

}  // namespace kiln::rope
