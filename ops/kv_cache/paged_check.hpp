#pragma once

#include <string>

#include "ops/kv_cache/append_call.hpp"
#include "ops/kv_cache/paged_call.hpp"
#include "ops/kv_cache/swap_call.hpp"

namespace kiln::kv_cache {

// Attribute check_bounds: each of these puts a look at the call's indices before the plan's launches, which leaves
// the first bad one in a workspace, where the dispatcher asks for it. A call without the attribute stays as it is.

/// A block table and the lengths that use it, of any op.
struct TableCheck {
  std::string op, cache;  ///< the op, and its input that has the blocks
  std::string room;       ///< what leaves room for so many tokens: "'max_len' and a"
  ops::TableCheckIteration iteration;
  int table_tensor, lengths_tensor;  ///< outputs first
  DType table, lengths;
  Dims table_shape, cache_shape;
};
void add_table_check(LaunchPlan& plan, const TableCheck& check, const Target& target);

/// kv_gather_paged: lengths, and the entries of the block table that they use.
void add_table_check(LaunchPlan& plan, const PagedGatherCall& call, const Target& target);
/// kv_append and kv_append_layers: slots; negative ones are legal.
void add_slot_check(LaunchPlan& plan, const AppendCall& call, const Target& target);
/// swap_blocks: both sides of each pair; negative ones are legal.
void add_mapping_check(LaunchPlan& plan, const SwapCall& call, const Target& target);

}  // namespace kiln::kv_cache
