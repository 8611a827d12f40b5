#include "runtime/backend.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/memory.hpp"

namespace kiln {

StreamPriorityRange CudaBackend::stream_priority_range(Device device) {
  const CurrentDevice current(device);
  return cuda::stream_priority_range();
}

void* CudaBackend::create_stream(Device device, int priority) {
  const CurrentDevice current(device);
  void* const stream = cuda::create_stream(priority);
  cuda::note_stream_made(stream);
  return stream;
}

void CudaBackend::destroy_stream(Stream stream) noexcept {
  const CurrentDevice current(stream.device);
  cuda::note_stream_gone(stream.handle);
  cuda::destroy_stream(stream.handle);
}

int CudaBackend::stream_priority(Stream stream) {
  const CurrentDevice current(stream.device);
  return cuda::stream_priority(stream.handle);
}

void CudaBackend::synchronize(Stream stream) {
  const CurrentDevice current(stream.device);
  const cuda::RelaxedCapture relaxed;  // waiting is forbidden to a thread that captures some other stream
  cuda::synchronize_stream(stream.handle);
}

void CudaBackend::synchronize_device(Device device) {
  const CurrentDevice current(device);
  cuda::synchronize_context();
}

void* CudaBackend::create_event(Device device, bool is_timed) {
  const CurrentDevice current(device);
  return cuda::create_event(is_timed);
}

void CudaBackend::destroy_event(Device device, void* event) noexcept {
  const CurrentDevice current(device);
  cuda::destroy_event(event);
}

void CudaBackend::record_event(void* event, Stream stream) {
  const CurrentDevice current(stream.device);
  cuda::record_event(event, stream.handle);
}

void CudaBackend::wait_for_event(Stream stream, void* event) {
  const CurrentDevice current(stream.device);
  cuda::wait_for_event(stream.handle, event);
}

bool CudaBackend::event_is_done(Device device, void* event) {
  const CurrentDevice current(device);
  const cuda::RelaxedCapture relaxed;  // asking is forbidden while some other stream is captured in global mode
  return cuda::event_is_done(event);
}

void CudaBackend::synchronize_event(Device device, void* event) {
  const CurrentDevice current(device);
  const cuda::RelaxedCapture relaxed;  // as in event_is_done
  cuda::synchronize_event(event);
}

double CudaBackend::elapsed_us(Device device, void* start, void* stop) {
  const CurrentDevice current(device);
  const cuda::RelaxedCapture relaxed;  // as in event_is_done
  return cuda::elapsed_us(start, stop);
}

}  // namespace kiln
