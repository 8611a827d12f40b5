#pragma once

#include "compiler/tl/target.hpp"

namespace kiln::tl {

/// This program's index along a grid axis (0, 1 or 2). 64 bits wide, so that program_id(0) * BLOCK_SIZE cannot
/// overflow.
KILN_DEVICE int64_t program_id(int axis) {
  return axis == 0 ? blockIdx.x : axis == 1 ? blockIdx.y : blockIdx.z;
}

/// Programs along a grid axis.
KILN_DEVICE int64_t num_programs(int axis) {
  return axis == 0 ? gridDim.x : axis == 1 ? gridDim.y : gridDim.z;
}

}  // namespace kiln::tl
