#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::indexing {

std::vector<OpSpec> indexing_specs();

}  // namespace kiln::indexing
