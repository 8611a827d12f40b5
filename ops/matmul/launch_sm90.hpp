#pragma once

#include <vector>

#include "ops/matmul/family_call.hpp"

namespace kiln::matmul {

/// The kernels for sm_90a, the preferred one first.
std::vector<Variant> sm90_variants(const MatmulParser& parse);

}  // namespace kiln::matmul
