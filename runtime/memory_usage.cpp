#include "runtime/memory_usage.hpp"

#include <fmt/format.h>

#include "core/quantity.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_info.hpp"

namespace kiln {

MemoryUsage memory_usage(Device device) {
  device_info(device);  // refuses a device that is not there
  return with_backend(device.type, [&](auto backend) { return backend.memory_usage(device); });
}

std::string to_string(const MemoryUsage& usage, Device device) {
  const std::string rest =
      fmt::format("{} free of {}", format_bytes(usage.free_bytes), format_bytes(usage.total_bytes));
  if (!device.is_cuda()) return fmt::format("{} in use by this process, {}", format_bytes(usage.used_bytes), rest);
  return fmt::format("{} in use by all processes, {}; the memory pool keeps {}, of which {} are in use",
                     format_bytes(usage.used_bytes), rest, format_bytes(usage.pool_reserved_bytes),
                     format_bytes(usage.pool_used_bytes));
}

std::int64_t last_level_cache_bytes(Device device) {
  return device.is_cuda() ? device_info(device).l2_bytes : CpuBackend::last_level_cache_bytes();
}

}  // namespace kiln
