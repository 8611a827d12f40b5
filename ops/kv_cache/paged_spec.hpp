#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// kv_gather_paged, kv_append, kv_append_layers, swap_blocks.
std::vector<OpSpec> paged_specs();

}  // namespace kiln::kv_cache
