#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

// "packets" where the elements of a row lie together and the target is a GPU, "rows" for everything else.

std::vector<Variant> paged_gather_variants();
/// Those of kv_append and of kv_append_layers.
std::vector<Variant> append_variants();
std::vector<Variant> swap_variants();

}  // namespace kiln::kv_cache
