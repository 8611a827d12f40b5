#include "runtime/open_recording.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"
#include "runtime/stream.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse_nested(Stream stream) {
  throw_value_error(
      fmt::format("the stream of {} is being captured already; a capture within a capture would be two graphs of one "
                  "stream: record "
                  "the inner one before, and launch it in the body of the outer one",
                  to_string(stream.device)));
}

}  // namespace

DriverGraph::~DriverGraph() {
  if (handle_ != nullptr) CudaBackend::destroy_graph(handle_);
}

CaptureFrame::CaptureFrame(Device device) : turn_(device) {
  CudaBackend::drop_finished_holdings();
}

CaptureFrame::~CaptureFrame() {
  CudaBackend::free_deferred();
}

void require_capturable(Stream stream) {
  require_cuda_device(stream.device);
  if (stream.handle == nullptr)
    throw_value_error(
        "CUDA cannot record the default stream; give a stream of your own (OwnedStream; in Python kiln.Stream)");
  if (is_capturing(stream)) refuse_nested(stream);
}

void OpenRecording::begin() {
  std::uint64_t capture_id = 0;
  if (stream_.device.is_cuda()) {
    require_capturable(stream_);
    const CurrentDevice current(stream_.device);
    frame_.emplace(stream_.device);
    CudaBackend::begin_capture(stream_);
    is_capturing_ = true;
    capture_id = CudaBackend::capture_id(stream_);
  } else if (Recording::is_on_this_thread(stream_.device)) {
    refuse_nested(stream_);
  }
  recording_ = std::make_shared<Recording>(stream_, capture_id);
  scope_.emplace(recording_);
}

Recorded OpenRecording::end() {
  scope_.reset();
  DriverGraph graph;
  if (std::exchange(is_capturing_, false)) graph = DriverGraph(CudaBackend::end_capture(stream_));
  frame_.reset();
  return {recording_->take_calls(), recording_->holdings(), std::move(graph)};
}

OpenRecording::~OpenRecording() {
  scope_.reset();
  if (!is_capturing_) return;
  CudaBackend::abandon_capture(stream_);
  recording_.reset();  // its memory is freed when the capture has ended
}

}  // namespace kiln
