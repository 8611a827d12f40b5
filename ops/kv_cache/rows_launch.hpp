#pragma once

#include <string_view>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// Of sparse_kv_gather and kv_scatter.
std::vector<Variant> rows_variants(std::string_view op);

/// The kernel for GPUs, in which a few warps keep many rows on their way.
Variant warps_variant(std::string_view op);

}  // namespace kiln::kv_cache
