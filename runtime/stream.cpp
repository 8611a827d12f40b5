#include "runtime/stream.hpp"

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"
#include "runtime/event.hpp"
#include "runtime/recording.hpp"

namespace kiln {
StreamPriorityRange stream_priority_range(Device device) {
  if (!device.is_cuda()) return {};
  require_cuda_device(device);
  return CudaBackend::stream_priority_range(device);
}

OwnedStream::OwnedStream(Device device, int priority) : stream_{device, nullptr} {
  if (!device.is_cuda()) return;
  require_cuda_device(device);
  stream_.handle = CudaBackend::create_stream(device, priority);
}

OwnedStream::~OwnedStream() {
  if (stream_.handle != nullptr) CudaBackend::destroy_stream(stream_);
}

int stream_priority(Stream stream) {
  if (!stream.device.is_cuda()) return 0;
  require_cuda_device(stream.device);
  return CudaBackend::stream_priority(stream);
}

void wait_stream(Stream stream, Stream other) {
  for (const Device device : {stream.device, other.device})
    if (device.is_cuda()) require_cuda_device(device);
  if (!other.device.is_cuda() || (stream.device == other.device && stream.handle == other.handle)) return;
  // The driver would refuse both too, and spoil the capture.
  if (!stream.device.is_cuda() && is_capturing(other))
    throw_value_error("the host cannot wait for a stream that is being captured: nothing of it runs yet");
  if (is_capturing(stream) &&
      (!is_capturing(other) || CudaBackend::capture_id(stream) != CudaBackend::capture_id(other)))
    throw_value_error(
        "a stream that is being captured cannot wait for one outside of the capture: let it wait before the capture, "
        "or let the other stream wait for it first, which makes that a part of the capture");
  Event mark(other.device);
  mark.record(other);
  mark.wait(stream);
}

void synchronize(Stream stream) {
  // The driver would refuse too, and spoil the capture.
  if (is_capturing(stream))
    throw_value_error(
        "a stream that is being captured cannot be waited for, as nothing runs: synchronize after the capture, or "
        "after a launch of the graph");
  if (!stream.device.is_cuda()) return;
  require_cuda_device(stream.device);
  CudaBackend::synchronize(stream);
}

bool is_capturing(Stream stream) {
  if (!stream.device.is_cuda()) return is_observed() && Recording::is_on_this_thread(stream.device);
  require_cuda_device(stream.device);
  return CudaBackend::is_capturing(stream);
}

}  // namespace kiln
