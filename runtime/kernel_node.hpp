#pragma once

#include "runtime/stream.hpp"

namespace kiln {

/// The node that the last launch on a captured CUDA stream became, as the driver's handle. InternalError for another
/// stream.
void* last_kernel_node(Stream stream);
/// Gives a kernel node of an instantiated graph the kernel and geometry of `source`, a node of a graph that is not
/// instantiated, with `parameters`, which `source` takes as well. DeviceError.
void set_kernel_node(void* executable, void* node, void* source, void* const* parameters);

}  // namespace kiln
