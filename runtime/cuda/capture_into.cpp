#include <algorithm>
#include <memory>
#include <vector>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/graph_holdings.hpp"
#include "runtime/open_recording.hpp"

namespace kiln {
namespace {

/// Runs `body` while `stream`, whose capture has begun, is recorded. `recording` is the caller's, so that after an
/// exception its memory is freed when the capture has ended.
void run_body(Stream stream, const std::function<void()>& body, std::shared_ptr<Recording>& recording) {
  recording = std::make_shared<Recording>(stream, cuda::capture_id(stream.handle));
  const RecordingScope scope(recording);
  body();
}

/// Takes away what a failed recording added to a graph of the caller's; later nodes first, since they depend on
/// earlier ones.
void destroy_added_nodes(void* graph, const std::vector<void*>& before) noexcept {
  try {
    const std::vector<void*> now = cuda::graph_nodes(graph);
    for (auto node = now.rbegin(); node != now.rend(); ++node)
      if (std::find(before.begin(), before.end(), *node) == before.end()) cuda::destroy_node(*node);
  } catch (const Error&) {
    return;  // the error on its way is the news
  }
}

}  // namespace

std::vector<void*> CudaBackend::capture_into(void* graph, std::span<void* const> dependencies, Stream stream,
                                             const std::function<void()>& body) {
  const CurrentDevice current(stream.device);
  const std::vector<void*> before = cuda::graph_nodes(graph);
  const CaptureFrame frame(stream.device);
  cuda::begin_capture_to_graph(stream.handle, graph, dependencies);
  std::shared_ptr<Recording> recording;
  bool is_ended = false;
  try {
    run_body(stream, body, recording);
    std::vector<void*> last = cuda::capture_dependencies(stream.handle);
    is_ended = true;
    cuda::end_capture(stream.handle);
    cuda::hold_with_graph(graph, recording->holdings());
    return last;
  } catch (...) {
    if (!is_ended) cuda::abandon_capture(stream.handle, true);
    destroy_added_nodes(graph, before);
    throw;
  }
}

}  // namespace kiln
