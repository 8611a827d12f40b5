// Stands in for runtime/cpu/kernel.cpp in a build without the CPU target. The CPU's memory, streams and graphs are
// there all the same.

#include "core/absent_target.hpp"
#include "core/artifact.hpp"
#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/kernel.hpp"

namespace kiln {

std::shared_ptr<const Kernel> CpuBackend::load_kernel(const Artifact& artifact, Device /*device*/) {
  throw DeviceError("loading kernel " + artifact.name, 0, kNoCpuTarget);
}

}  // namespace kiln
