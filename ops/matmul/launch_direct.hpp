#pragma once

#include "ops/matmul/family_call.hpp"

namespace kiln::matmul {

/// What small, narrow and shallow products of f32 and f64 run as on the CPU: registers to the output, without tiles.
Variant stream_variant(const MatmulParser& parse, const KernelSource& source);
Variant outer_variant(const MatmulParser& parse, const KernelSource& source);
Variant inner_variant(const MatmulParser& parse, const KernelSource& source);

}  // namespace kiln::matmul
