#pragma once

#include <cstdint>
#include <optional>

#include "core/device.hpp"

namespace kiln {

/// Whose memory an address is, as the driver knows it: for arrays whose makers say where they lie, and may be wrong.
/// The GPU for its memory and for managed memory; nullopt for any other address, and where there is no GPU.
std::optional<Device> gpu_of_memory(const void* address);

/// How many bytes behind an address belong to allocations of `gpu`, as the driver knows them, up to `wanted_bytes`;
/// allocations that lie side by side count as one.
std::int64_t gpu_bytes_at(const void* address, std::int64_t wanted_bytes, Device gpu);

}  // namespace kiln
