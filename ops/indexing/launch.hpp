#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::indexing {

/// "rows" where whole rows go by one index, "elements" for everything else. They read attribute 'dim'.
std::vector<Variant> index_select_variants();
std::vector<Variant> gather_variants();
/// One variant of two kernels: out becomes x, then src is added.
std::vector<Variant> scatter_add_variants();

}  // namespace kiln::indexing
