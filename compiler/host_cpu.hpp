#pragma once

#include "core/target.hpp"

namespace kiln {

/// The CPU of this machine as a target (name and features from LLVM's host detection, without loading LLVM).
const Target& host_cpu_target();

}  // namespace kiln
