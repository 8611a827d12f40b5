#pragma once

#include <cstdint>

#include "core/device.hpp"
#include "core/target.hpp"

namespace kiln {

/// What to compile for on `device`: its architecture, as PTX where its driver is older than NVRTC's machine code.
Target target_of(Device device);
/// What OpCall::processors is for a call on `device`.
std::int64_t processors_of(Device device);
/// What OpCall::cluster_processors is.
std::int64_t cluster_processors_of(Device device);

/// Whether kernels on a GPU may be launched so that they overlap what is before them.
bool can_overlap_previous(Device device);
/// Whether a call's plan is made for that, where `is_asked` (DispatchOptions::overlap_previous).
inline bool overlaps_previous(bool is_asked, Device device) {
  return is_asked && device.is_cuda() && can_overlap_previous(device);
}

}  // namespace kiln
