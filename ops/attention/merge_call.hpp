#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/iteration_merge.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

inline constexpr const char* kMergeOp = "merge_attention";

/// Partial results and what they become.
struct MergeCall {
  DType in = DType::f32, out = DType::f32;
  ops::MergeIteration iteration;
  std::int64_t places = 0;  ///< rows of heads
  bool returns_lse = false;
};

/// `outs` [parts, ..., Dv] and `lses` [parts, ...] to `out` [..., Dv] and, where it is given, `lse` [...].
MergeCall merge_of(const TensorView& out, const TensorView* lse, const TensorView& outs, const TensorView& lses);

/// merge_attention: inputs outs, lses. UsageError(value) for shapes that do not fit each other.
std::vector<TensorMeta> infer_merge(const CallInputs& inputs, const Attributes& attributes);
MergeCall merge_call(const OpCall& call);

}  // namespace kiln::attention
