#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::linear {

/// linear and linear_relu.
std::vector<OpSpec> linear_specs();

}  // namespace kiln::linear
