#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

std::vector<OpSpec> kv_cache_specs();

}  // namespace kiln::kv_cache
