#pragma once

#include <memory>

#include "core/artifact.hpp"
#include "runtime/kernel.hpp"

namespace kiln {

/// Links an object for the CPU into this process. UsageError(value) for an artifact of another kind or of another CPU's
/// features; DeviceError when libkiln-orc.so is missing or the object does not link, naming the symbols that the
/// process does not have.
std::shared_ptr<const Kernel> load_cpu_kernel(const Artifact& artifact);

}  // namespace kiln
