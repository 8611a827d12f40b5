#pragma once

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

// Attribute check_bounds: each of these puts a look at the call's indices before the plan's launches, which find the
// first bad one into a workspace, where the dispatcher asks for it.

/// kv_gather_paged: lengths, and the entries of the block table that they use.
void add_table_check(LaunchPlan& plan, const OpCall& call, const Target& target);
/// kv_append and kv_append_layers: slots; negative ones are legal.
void add_slot_check(LaunchPlan& plan, const OpCall& call, const Target& target);
/// swap_blocks: both sides of each pair; negative ones are legal.
void add_mapping_check(LaunchPlan& plan, const OpCall& call, const Target& target);

}  // namespace kiln::kv_cache
