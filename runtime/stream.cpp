#include "runtime/stream.hpp"

#include <cstdint>

#include "core/errors.hpp"
#include "runtime/device_access.hpp"
#include "runtime/event.hpp"
#include "runtime/recording.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#include "runtime/cuda_memory.hpp"
#endif

namespace kiln {
namespace {

/// The driver's number of the capture that a stream of a GPU is in.
std::uint64_t capture_id([[maybe_unused]] Stream stream) {
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  return cuda::capture_id(stream.handle);
#else
  return 0;
#endif
}

}  // namespace

StreamPriorityRange stream_priority_range(Device device) {
  if (!device.is_cuda()) return {};
  require_cuda_device(device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
  const cuda::PriorityRange range = cuda::stream_priority_range();
  return {range.least, range.greatest};
#else
  return {};
#endif
}

OwnedStream::OwnedStream(Device device, [[maybe_unused]] int priority) : stream_{device, nullptr} {
  if (!device.is_cuda()) return;
  require_cuda_device(device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
  stream_.handle = cuda::create_stream(priority);
  cuda::note_stream_made(stream_.handle);
#endif
}

OwnedStream::~OwnedStream() {
#if KILN_HAS_CUDA
  if (stream_.handle == nullptr) return;
  const cuda::CurrentContext current(cuda::primary_context(stream_.device.index), stream_.device.index);
  cuda::note_stream_gone(stream_.handle);
  cuda::destroy_stream(stream_.handle);
#endif
}

int stream_priority(Stream stream) {
  if (!stream.device.is_cuda()) return 0;
  require_cuda_device(stream.device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  return cuda::stream_priority(stream.handle);
#else
  return 0;
#endif
}

void wait_stream(Stream stream, Stream other) {
  for (const Device device : {stream.device, other.device})
    if (device.is_cuda()) require_cuda_device(device);
  if (!other.device.is_cuda() || (stream.device == other.device && stream.handle == other.handle)) return;
  // The driver would refuse both too, and spoil the capture.
  if (!stream.device.is_cuda() && is_capturing(other))
    throw_value_error("the host cannot wait for a stream that is being captured: nothing of it runs yet");
  if (is_capturing(stream) && (!is_capturing(other) || capture_id(stream) != capture_id(other)))
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
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  const cuda::RelaxedCapture relaxed;  // waiting is forbidden to a thread that captures some other stream
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
