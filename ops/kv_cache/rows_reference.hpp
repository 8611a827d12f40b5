#pragma once

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// Of sparse_kv_gather and kv_scatter.
void rows_reference(const OpCall& call);

}  // namespace kiln::kv_cache
