#include "runtime/kernel.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "runtime/device_access.hpp"

#if KILN_HAS_CPU
#include "runtime/cpu_kernel.hpp"
#endif
#if KILN_HAS_CUDA
#include "runtime/cuda_kernel.hpp"
#endif

namespace kiln {

std::shared_ptr<const Kernel> load_kernel(const Artifact& artifact, Device device) {
  if (artifact.target.type != device.type)
    throw_value_error(fmt::format("kernel {} was compiled for {}, which does not run on {}", artifact.name,
                                  to_string(artifact.target), to_string(device)));
  if (device.is_cuda()) {
    require_cuda_device(device);
#if KILN_HAS_CUDA
    return cuda::load_cuda_kernel(artifact, device);
#endif
  }
#if KILN_HAS_CPU
  return load_cpu_kernel(artifact);
#else
  throw DeviceError("loading kernel " + artifact.name, 0,
                    "this Kiln was built with -DKILN_CPU=OFF; rebuild with -DKILN_CPU=ON (needs LLVM and Clang 19)");
#endif
}

}  // namespace kiln
