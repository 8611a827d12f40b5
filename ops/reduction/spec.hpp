#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::reduction {

std::vector<OpSpec> reduction_specs();

}  // namespace kiln::reduction
