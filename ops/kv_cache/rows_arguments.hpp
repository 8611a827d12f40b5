#pragma once

#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {

/// The place of input `input` among the call's tensors, -1 where the call does not have it.
int tensor_of(const RowsCall& call, RowsInput input);

/// Attribute check_bounds: puts a look at all indices before the plan's launches.
void add_rows_check(const RowsCall& call, const Target& target, LaunchPlan& plan);

}  // namespace kiln::kv_cache
