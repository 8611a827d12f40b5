#include "runtime/memory_location.hpp"

#include "runtime/device_info.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#endif

namespace kiln {

std::optional<Device> gpu_of_memory([[maybe_unused]] const void* address) {
  if (device_count(DeviceType::cuda) == 0) return std::nullopt;
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(0), 0);  // the driver answers for all devices
  if (const int ordinal = cuda::device_of_memory(address); ordinal >= 0) return Device::cuda(ordinal);
#endif
  return std::nullopt;
}

}  // namespace kiln
