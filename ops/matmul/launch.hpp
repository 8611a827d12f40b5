#pragma once

#include <vector>

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// The kernels for what `resolve` describes, the preferred one first.
std::vector<Variant> matmul_variants(const Resolve& resolve);

}  // namespace kiln::matmul
