#include "runtime/stream.hpp"

#include "runtime/device_access.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#endif

namespace kiln {

OwnedStream::OwnedStream(Device device) : stream_{device, nullptr} {
  if (!device.is_cuda()) return;
  require_cuda_device(device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
  stream_.handle = cuda::create_stream();
#endif
}

OwnedStream::~OwnedStream() {
#if KILN_HAS_CUDA
  if (stream_.handle != nullptr) cuda::destroy_stream(stream_.handle);
#endif
}

void synchronize(Stream stream) {
  if (!stream.device.is_cuda()) return;
  require_cuda_device(stream.device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  cuda::synchronize_stream(stream.handle);
#endif
}

bool is_capturing(Stream stream) {
  if (!stream.device.is_cuda()) return false;
  require_cuda_device(stream.device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  return cuda::stream_is_capturing(stream.handle);
#else
  return false;
#endif
}

}  // namespace kiln
