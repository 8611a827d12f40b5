#include <utility>

#include "runtime/backend.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/graph_holdings.hpp"

namespace kiln {

bool CudaBackend::is_capturing(Stream stream) {
  const CurrentDevice current(stream.device);
  return cuda::stream_is_capturing(stream.handle);
}

std::uint64_t CudaBackend::capture_id(Stream stream) {
  const CurrentDevice current(stream.device);
  return cuda::capture_id(stream.handle);
}

void CudaBackend::begin_capture(Stream stream) {
  const CurrentDevice current(stream.device);
  cuda::begin_capture(stream.handle);
}

void* CudaBackend::end_capture(Stream stream) {
  const CurrentDevice current(stream.device);
  return cuda::end_capture(stream.handle);
}

void CudaBackend::abandon_capture(Stream stream) noexcept {
  const CurrentDevice current(stream.device);
  cuda::abandon_capture(stream.handle);
}

std::vector<void*> CudaBackend::capture_dependencies(Stream stream) {
  const CurrentDevice current(stream.device);
  return cuda::capture_dependencies(stream.handle);
}

bool CudaBackend::launch_graph(void* executable, void*& launched, Stream stream) {
  const CurrentDevice current(stream.device);
  if (cuda::capture_id(stream.handle) != 0) return false;
  if (launched == nullptr) launched = cuda::create_event(false);
  cuda::launch_graph(executable, stream.handle);
  cuda::record_event(launched, stream.handle);
  return true;
}

void CudaBackend::capture_child_graph(Stream stream, void* graph) {
  const CurrentDevice current(stream.device);
  cuda::capture_child_graph(stream.handle, graph);
}

void CudaBackend::hold_with_capture(Stream stream, std::shared_ptr<void> holdings) {
  const CurrentDevice current(stream.device);
  cuda::hold_with_graph(cuda::captured_graph(stream.handle), std::move(holdings));
}

}  // namespace kiln
