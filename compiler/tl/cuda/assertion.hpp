#pragma once

#include "compiler/tl/program.hpp"

namespace kiln::tl {

KILN_DEVICE bool is_first_thread() {
  return threadIdx.x == 0;
}

/// Prints to stderr by way of the driver and stops the grid. Out of line, so that an assertion costs the usual path one
/// branch. NVRTC declares __assertfail itself.
__device__ __noinline__ void assertion_failed(const char* message, const char* file, int line) {
  __assertfail(message, file, static_cast<unsigned int>(line), "kernel", 1);
}

}  // namespace kiln::tl
