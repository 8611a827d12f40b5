#pragma once

#include <cstdint>
#include <string>

#include "core/device.hpp"

namespace kiln {

/// Memory of a device at one moment.
struct MemoryUsage {
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;  ///< CPU: what is there without swapping. GPU: what the driver has left
  /// CPU: resident memory of this process. GPU: everything that is not free, of all processes.
  std::int64_t used_bytes = 0;
  /// GPU: what the device's default memory pool, which torch may use too, keeps of `used_bytes`, and how much of that
  /// somebody holds; 0 on the CPU.
  std::int64_t pool_reserved_bytes = 0;
  std::int64_t pool_used_bytes = 0;

  /// What tensors could take: the free memory, and what the pool keeps for nobody.
  std::int64_t available_bytes() const noexcept { return free_bytes + pool_reserved_bytes - pool_used_bytes; }
};

/// UsageError(value) for a device that is not there; DeviceError where the driver does not say.
MemoryUsage memory_usage(Device device);

/// "1.5 GiB in use by this process, 20.1 GiB free of 23.5 GiB".
std::string to_string(const MemoryUsage& usage, Device device);

/// The size of the cache between the processors and the device's memory: the GPU's L2; all last-level caches of the
/// CPUs that Linux describes, together; 0 when unknown.
std::int64_t last_level_cache_bytes(Device device);

}  // namespace kiln
