#pragma once

#include <string>

#include "core/artifact.hpp"

namespace kiln {

/// SASS of a cubin, by cuobjdump or nvdisasm from PATH or /usr/local/cuda/bin. UsageError(not_implemented) for other
/// artifacts; DeviceError that says what to install when neither program is there, or what it said when it fails.
std::string disassemble(const Artifact& artifact);

}  // namespace kiln
