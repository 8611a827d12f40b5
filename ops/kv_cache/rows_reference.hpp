#pragma once

#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {

/// Of sparse_kv_gather and kv_scatter.
void rows_reference(const RowsCall& rows, const OpCall& call);

}  // namespace kiln::kv_cache
