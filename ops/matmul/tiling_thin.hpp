#pragma once

#include "ops/estimated_config.hpp"
#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// BLOCK_M, BLOCK_N, UNROLL and num_warps of the kernel for little to sum.
ConfigSpace thin_space();

/// The config of the space of the least estimated time.
EstimatedConfig thin_default(const MatmulCall& call, const Target& target);

}  // namespace kiln::matmul
