#pragma once

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// BLOCK_M, BLOCK_N, UNROLL and num_warps of the kernel for little to sum.
ConfigSpace thin_space();

struct ThinChoice {
  Config config;
  double us;  ///< on an H200
};
/// The config of the space of the least estimated time, and that time.
ThinChoice thin_default(const MatmulCall& call, const Target& target);

}  // namespace kiln::matmul
