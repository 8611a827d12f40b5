#include "runtime/backend.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/driver.hpp"

namespace kiln {

void CudaBackend::copy(void* destination, Device destination_device, const void* source, Device source_device,
                       std::size_t size_bytes, Stream stream) {
  const CurrentDevice current(stream.device);
  if (!source_device.is_cuda())
    cuda::copy_host_to_device(destination, source, size_bytes, stream.handle);
  else if (!destination_device.is_cuda())
    cuda::copy_device_to_host(destination, source, size_bytes, stream.handle);
  else if (source_device == destination_device)
    cuda::copy_on_device(destination, source, size_bytes, stream.handle);
  else
    cuda::copy_between_devices(destination, cuda::primary_context(destination_device.index), source,
                               cuda::primary_context(source_device.index), size_bytes, stream.handle);
}

void CudaBackend::fill(void* destination, std::uint8_t value, std::size_t size_bytes, Stream stream) {
  const CurrentDevice current(stream.device);
  cuda::fill_bytes(destination, value, size_bytes, stream.handle);
}

bool CudaBackend::lock_host_memory(void* memory, std::size_t size_bytes, Device device) {
  const CurrentDevice current(device);
  const cuda::RelaxedCapture relaxed;
  return cuda::register_host(memory, size_bytes);
}

void CudaBackend::unlock_host_memory(void* memory, Device device) noexcept {
  const CurrentDevice current(device);
  const cuda::RelaxedCapture relaxed;
  cuda::unregister_host(memory);
}

}  // namespace kiln
