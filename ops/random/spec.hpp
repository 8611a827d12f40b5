#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::random {

std::vector<OpSpec> random_specs();

}  // namespace kiln::random
