#pragma once

#include <vector>

#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {

/// The variants of sparse_kv_gather and kv_scatter.
std::vector<Variant> rows_variants(const RowsParser& parse);

/// The kernel for GPUs, in which a few warps keep many rows on their way.
Variant warps_variant(const RowsParser& parse);

}  // namespace kiln::kv_cache
