#pragma once

#include <string>

#include "autotune/evidence.hpp"

namespace kiln::detail {

/// CompileError or DeviceError where the default of a tuning failed, with which all others are compared; returns
/// otherwise. `kind` and `name` begin the message: op 'softmax'.
void check_default_worked(const std::string& kind, const std::string& name, const CandidateEvidence& of_default);

}  // namespace kiln::detail
