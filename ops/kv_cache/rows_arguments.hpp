#pragma once

#include <string_view>

#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {

/// Adds input `input`, or a null pointer where the call does not have it.
void add_input(ArgumentTemplate& arguments, const RowsCall& call, RowsInput input);

/// Attribute check_bounds: puts a look at all indices before the plan's launches.
void add_rows_check(std::string_view op, const RowsCall& call, const Target& target, LaunchPlan& plan);

}  // namespace kiln::kv_cache
