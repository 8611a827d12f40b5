#pragma once

#include <cstdint>
#include <vector>

#include "core/target.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

// Requests' keys taken in parts by programs of their own, whose results merge_attention's kernel merges.

/// Scratch memory of a plan: what each part of the keys gives, rows and logarithms of their sums.
inline constexpr int kPartRows = 0, kPartLses = 1;

/// What a choice of parts follows from: shapes alone, since lengths are on the device.
struct SplitDemand {
  std::int64_t programs;       ///< of one part
  std::int64_t most_tokens;    ///< of a request
  std::int64_t block_keys;     ///< of a step
  std::int64_t requested;      ///< as the call says; 0: chosen
  std::int64_t processors;     ///< 0: unknown
  std::int64_t programs_each;  ///< that a GPU's multiprocessor is to run at a time
};
/// As the call says, or the fewest parts of keys with which programs have work for nearly as much of the time as with
/// any number of parts.
std::int64_t num_splits(const SplitDemand& demand, const Target& target);

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
