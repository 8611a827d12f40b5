#pragma once

#include "ops/matmul/family_call.hpp"

namespace kiln::matmul {

/// Large products on the CPU: of f64, or of all other floats. `source` is kernel.hpp.
Variant blocked_variant(bool is_wide, const MatmulParser& parse, const KernelSource& source);

}  // namespace kiln::matmul
