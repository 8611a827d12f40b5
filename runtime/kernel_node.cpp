#include "runtime/kernel_node.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/errors.hpp"
#include "runtime/backend.hpp"

namespace kiln {

void* last_kernel_node(Stream stream) {
  const std::vector<void*> nodes = CudaBackend::capture_dependencies(stream);
  if (nodes.size() == 1) return nodes.front();
  throw InternalError(
      fmt::format("a captured launch on {} left {} nodes to depend on", to_string(stream.device), nodes.size()));
}

void set_kernel_node(void* executable, void* node, void* source, void* const* parameters) {
  CudaBackend::set_kernel_parameters(executable, node, source, parameters);
}

}  // namespace kiln
