#pragma once

#include <string>

#include "compiler/compiler.hpp"
#include "core/device.hpp"

namespace kiln {

/// The process's compiler for a target type, loaded on first use (libnvrtc or kiln's Clang shared object).
/// DeviceError that says what is missing and what to install.
Compiler& compiler_for(DeviceType type);
/// Why compiler_for would throw, or empty. Never throws.
std::string compiler_problem(DeviceType type) noexcept;

}  // namespace kiln
