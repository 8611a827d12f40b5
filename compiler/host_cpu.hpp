#pragma once

#include "core/target.hpp"

namespace kiln {

/// The CPU of this machine as a target, with the features that kernels may use (usable_cpu_features). LLVM is not
/// loaded. UsageError(value) where KILN_CPU_FEATURES is malformed.
const Target& host_cpu_target();

}  // namespace kiln
