#include "runtime/fork_join.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"

namespace kiln {
void fork_join(Stream stream, std::span<const std::function<void(Stream)>> branches) {
  for (std::size_t i = 0; i < branches.size(); ++i)
    if (!branches[i]) throw_value_error(fmt::format("branch {} of a fork_join is an empty function", i));
  if (stream.device.is_cuda()) {
    require_cuda_device(stream.device);
    return CudaBackend::fork_join(stream, branches);
  }
  for (const auto& branch : branches) branch(stream);
}

}  // namespace kiln
