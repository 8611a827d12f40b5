#include "runtime/kernel_node.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/errors.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#endif

namespace kiln {
#if KILN_HAS_CUDA

void* last_kernel_node(Stream stream) {
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  const std::vector<void*> nodes = cuda::capture_dependencies(stream.handle);
  if (nodes.size() == 1) return nodes.front();
  throw InternalError(
      fmt::format("a captured launch on {} left {} nodes to depend on", to_string(stream.device), nodes.size()));
}

void set_kernel_node(void* executable, void* node, void* source, void* const* parameters) {
  cuda::set_kernel_parameters(executable, node, source, parameters);
}

#else

void* last_kernel_node(Stream /*stream*/) {
  throw InternalError("a build without the NVIDIA target was asked for a node of a CUDA graph");
}

void set_kernel_node(void* /*executable*/, void* /*node*/, void* /*source*/, void* const* /*parameters*/) {
  throw InternalError("a build without the NVIDIA target was asked to change a node of a CUDA graph");
}

#endif
}  // namespace kiln
