#include "runtime/stream.hpp"

#include "core/errors.hpp"
#include "runtime/device_access.hpp"
#include "runtime/recording.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#include "runtime/cuda_memory.hpp"
#endif

namespace kiln {

OwnedStream::OwnedStream(Device device) : stream_{device, nullptr} {
  if (!device.is_cuda()) return;
  require_cuda_device(device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
  stream_.handle = cuda::create_stream();
  cuda::note_stream_made(stream_.handle);
#endif
}

OwnedStream::~OwnedStream() {
#if KILN_HAS_CUDA
  if (stream_.handle == nullptr) return;
  cuda::note_stream_gone(stream_.handle);
  cuda::destroy_stream(stream_.handle);
#endif
}

void synchronize(Stream stream) {
  // The driver would refuse too, and spoil the capture.
  if (is_capturing(stream))
    throw_value_error(
        "a stream that is being captured cannot be waited for, as nothing runs: synchronize after the capture, or "
        "after a launch of the graph");
  if (!stream.device.is_cuda()) return;
  require_cuda_device(stream.device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  cuda::synchronize_stream(stream.handle);
#endif
}

bool is_capturing(Stream stream) {
  if (!stream.device.is_cuda()) return is_observed() && Recording::is_on_this_thread(stream.device);
  require_cuda_device(stream.device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  return cuda::stream_is_capturing(stream.handle);
#else
  return false;
#endif
}

}  // namespace kiln
