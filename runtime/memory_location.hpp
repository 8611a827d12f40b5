#pragma once

#include <optional>

#include "core/device.hpp"

namespace kiln {

/// Whose memory an address is, as the driver knows it: for arrays whose makers say where they lie, and may be wrong.
/// The GPU for its memory and for managed memory; nullopt for any other address, and where there is no GPU.
std::optional<Device> gpu_of_memory(const void* address);

}  // namespace kiln
