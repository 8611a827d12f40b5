#include "runtime/memory_location.hpp"

#include <algorithm>
#include <cstddef>

#include "runtime/backend.hpp"
#include "runtime/device_info.hpp"

namespace kiln {

std::optional<Device> gpu_of_memory(const void* address) {
  if (device_count(DeviceType::cuda) == 0) return std::nullopt;
  const CurrentDevice current(Device::cuda(0));  // the driver answers for all devices
  const int ordinal = CudaBackend::device_of_memory(address);
  return ordinal >= 0 ? std::optional(Device::cuda(ordinal)) : std::nullopt;
}

std::int64_t gpu_bytes_at(const void* address, std::int64_t wanted_bytes, Device gpu) {
  if (device_count(DeviceType::cuda) == 0) return 0;
  const CurrentDevice current(gpu);
  std::int64_t found_bytes = 0;
  while (found_bytes < wanted_bytes) {
    const void* const next = static_cast<const std::byte*>(address) + found_bytes;
    if (CudaBackend::device_of_memory(next) != gpu.index) break;
    const std::int64_t left_bytes = CudaBackend::bytes_left_in_allocation(next);
    if (left_bytes <= 0) return wanted_bytes;  // the device's, but the driver states no range of it
    found_bytes += left_bytes;
  }
  return std::min(found_bytes, wanted_bytes);
}

}  // namespace kiln
