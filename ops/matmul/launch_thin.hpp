#pragma once

#include "ops/matmul/family_call.hpp"

namespace kiln::matmul {

/// Serves products on GPUs with little to sum, of any strides. `source` is kernel.hpp.
Variant thin_variant(const MatmulParser& parse, const KernelSource& source);

}  // namespace kiln::matmul
