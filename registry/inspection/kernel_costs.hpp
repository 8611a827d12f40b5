#pragma once

#include <string>

#include "compiler/compile_request.hpp"

namespace kiln {

/// What the lines of a GPU kernel's source cost, as a table: instructions, and of these accesses of shared memory,
/// where layouts change and rows are reduced, shuffles, barriers, accesses of global memory, copies in the background,
/// products of tensor cores and accesses of local memory; below it registers and spills. Counts are of instructions in
/// the code, not of how often they run. CompileError; DeviceError where there is no NVRTC.
std::string kernel_costs(const CompileRequest& request);

}  // namespace kiln
