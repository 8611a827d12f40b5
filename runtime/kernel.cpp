#include "runtime/kernel.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"

namespace kiln {

std::shared_ptr<const Kernel> load_kernel(const Artifact& artifact, Device device) {
  if (artifact.target.type != device.type)
    throw_value_error(fmt::format("kernel {} was compiled for {}, which does not run on {}", artifact.name,
                                  to_string(artifact.target), to_string(device)));
  if (device.is_cuda()) require_cuda_device(device);
  return with_backend(device.type, [&](auto backend) { return backend.load_kernel(artifact, device); });
}

}  // namespace kiln
