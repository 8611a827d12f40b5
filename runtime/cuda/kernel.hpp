#pragma once

#include <string_view>

#include "core/artifact.hpp"

namespace kiln::cuda {

/// Whether machine code (or PTX) for `arch` ("sm_80", "sm_90a") runs on a device whose own architecture is
/// `device_arch`. Machine code stays within a major version; architecture-specific ('a') code runs on exactly that
/// architecture; family-specific ('f') code and plain PTX on it and later ones.
bool runs_on(ArtifactKind kind, std::string_view arch, std::string_view device_arch);

}  // namespace kiln::cuda
