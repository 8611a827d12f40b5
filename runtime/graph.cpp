#include "runtime/graph.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/errors.hpp"
#include "runtime/device_access.hpp"
#include "runtime/observers.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#endif

namespace kiln {

Graph Graph::capture(Stream stream, [[maybe_unused]] const std::function<void()>& body) {
  if (!stream.device.is_cuda())
    throw_not_implemented("graphs record CUDA streams only; on the CPU call the work itself");
  require_cuda_device(stream.device);
  if (stream.handle == nullptr)
    throw_value_error("CUDA cannot record the default stream; give a stream of your own (OwnedStream)");
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  cuda::begin_capture(stream.handle);
  try {
    body();
  } catch (...) {
    cuda::abandon_capture(stream.handle);
    throw;
  }
  return Graph(stream.device, cuda::end_capture(stream.handle));
#else
  throw InternalError("a build without the NVIDIA target got as far as recording a CUDA stream");
#endif
}

Graph::~Graph() {
#if KILN_HAS_CUDA
  if (executable_ != nullptr) cuda::destroy_graph(executable_);
#endif
}

Graph::Graph(Graph&& other) noexcept : device_(other.device_), executable_(std::exchange(other.executable_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(executable_, other.executable_);
  return *this;
}

void Graph::launch(Stream stream) const {
  if (stream.device != device_)
    throw_value_error(fmt::format("a graph recorded on {} was launched on a stream of {}", to_string(device_),
                                  to_string(stream.device)));
  if (is_observed()) [[unlikely]] {
    if (const GraphLaunchObserver observer = graph_launch_observer.load(); observer != nullptr) {
      observer(stream, [&] { replay(stream); });
      return;
    }
  }
  replay(stream);
}

void Graph::replay([[maybe_unused]] Stream stream) const {
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(device_.index), device_.index);
  cuda::launch_graph(executable_, stream.handle);
#endif
}

}  // namespace kiln
