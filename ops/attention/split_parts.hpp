#pragma once

#include <cstdint>
#include <vector>

#include "core/target.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

// Requests' keys taken in parts by programs of their own, whose results merge_attention's kernel merges.

/// Scratch memory of a plan: what each part of the keys gives, rows and logarithms of their sums.
inline constexpr int kPartRows = 0, kPartLses = 1;

/// What parts leave in scratch memory: rows [splits, B, Sq, H, Dv] and lses [splits, B, Sq, H], views without data.
struct SplitParts {
  TensorView rows, lses;
  std::vector<std::int64_t> workspace_bytes() const;
};
struct PartShape {
  std::int64_t splits, batch, queries, heads, width;
};
/// As kernels write them: a query's heads side by side, or a head's queries.
SplitParts parts_by_queries(const PartShape& shape);
SplitParts parts_by_heads(const PartShape& shape);

/// Outputs of an op: out [B, Sq, H, Dv], and lse [B, H, Sq] where the call returns it.
struct MergedOutputs {
  const char* op;
  const TensorView& out;
  const TensorView* lse;
};
void add_merge(const MergedOutputs& outputs, const SplitParts& parts, const Target& target, LaunchPlan& plan);

}  // namespace kiln::attention
