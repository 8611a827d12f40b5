#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// sparse_kv_gather and kv_scatter.
std::vector<OpSpec> gather_specs();

}  // namespace kiln::kv_cache
