#pragma once

#include <vector>

#include "registry/profiling/profile_records.hpp"

namespace kiln {

/// When a GPU worked for one entry of a region: from the start of the first of the calls inside it to the end of the
/// last. The host may have left the region long before.
struct DeviceRegion {
  Device device;
  std::uint32_t region = 0;
  ProfileTime start, end;
};

/// Of a thread's regions, those whose calls ran on GPUs and have times, in the order of `regions`.
std::vector<DeviceRegion> device_regions(const ThreadRecords& thread);

}  // namespace kiln
