#include "python/bindings/gpu_presence.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "runtime/device_info.hpp"

namespace kiln::python {

void require_gpu(Device device, std::string_view advice) {
  if (!device.is_cuda()) return;
  try {
    device_info(device);
  } catch (const UsageError& error) {
    throw DeviceError("using " + to_string(device), 0, fmt::format("{}; {}", error.what(), advice));
  }
}

}  // namespace kiln::python
