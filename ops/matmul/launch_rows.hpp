#pragma once

#include "ops/matmul/family_call.hpp"

namespace kiln::matmul {

/// Serves products of up to four rows, which are bound by reading the matrix: of f64, or of all others. `source` is
/// kernel.hpp.
Variant rows_variant(bool is_wide, const MatmulParser& parse, const KernelSource& source);

}  // namespace kiln::matmul
