#include "runtime/device_info.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"

namespace kiln {
namespace {

/// Why there is no device `device`, naming those that there are.
std::string absence(Device device) {
  const int count = device_count(device.type);
  if (device.type == DeviceType::cpu)
    return fmt::format("there is no device {}; the CPU is one device, cpu", to_string(device));
  if (count == 0) return fmt::format("there is no device {}: {}", to_string(device), device_problem(device.type));
  return fmt::format("there is no device {}; there {} cuda:0{}", to_string(device), count == 1 ? "is" : "are",
                     count == 1 ? std::string() : fmt::format(" to cuda:{}", count - 1));
}

bool exists(Device device) {
  return device.index >= 0 && device.index < device_count(device.type);
}

}  // namespace

int device_count(DeviceType type) noexcept {
  return with_backend(type, [](auto backend) { return backend.device_count(); });
}

std::string device_problem(DeviceType type) noexcept {
  return with_backend(type, [](auto backend) { return backend.problem(); });
}

const DeviceInfo& device_info(Device device) {
  if (!exists(device)) throw_value_error(absence(device));
  return with_backend(device.type, [&](auto backend) -> const DeviceInfo& { return backend.info(device.index); });
}

std::int32_t cluster_processors(Device device) {
  if (!device.is_cuda() || !device_info(device).target.arch.starts_with("sm_9")) return 0;
  return CudaBackend::cluster_processors(device);
}

void require_cuda_device(Device device) {
  if (!exists(device)) throw DeviceError("using " + to_string(device), 0, absence(device));
}

}  // namespace kiln
