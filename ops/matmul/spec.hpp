#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::matmul {

/// matmul and scaled_matmul.
std::vector<OpSpec> matmul_specs();

}  // namespace kiln::matmul
