#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/capture_turn.hpp"
#include "runtime/recording.hpp"

namespace kiln {

/// A graph of the driver's that is not instantiated; null on the CPU.
class DriverGraph {
 public:
  explicit DriverGraph(void* handle = nullptr) noexcept : handle_(handle) {}
  ~DriverGraph();
  DriverGraph(DriverGraph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DriverGraph& operator=(DriverGraph&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  void* get() const noexcept { return handle_; }

 private:
  void* handle_;
};

/// What a recording leaves.
struct Recorded {
  std::vector<std::shared_ptr<const RecordedCall>> calls;
  std::shared_ptr<GraphHoldings> holdings;
  DriverGraph graph;
};

/// What goes on around a capture on a GPU, whether it ends well or not.
class CaptureFrame {
 public:
  explicit CaptureFrame(Device device);
  ~CaptureFrame();
  CaptureFrame(const CaptureFrame&) = delete;
  CaptureFrame& operator=(const CaptureFrame&) = delete;

 private:
  CaptureTurn turn_;
};

/// UsageError(value) for CUDA's default stream and for a stream that is being captured already; DeviceError when the
/// device is absent.
void require_capturable(Stream stream);

/// A recording that has begun. It ends on the thread that began it, and without `end` as after an exception.
class OpenRecording {
 public:
  /// Errors as kiln::capture.
  explicit OpenRecording(Stream stream) : OpenRecording(stream, NotBegun()) { begin(); }
  ~OpenRecording();
  OpenRecording(const OpenRecording&) = delete;
  OpenRecording& operator=(const OpenRecording&) = delete;

  Stream stream() const noexcept { return stream_; }
  Recorded end();

 private:
  struct NotBegun {};
  OpenRecording(Stream stream, NotBegun) noexcept : stream_(stream) {}  // the destructor is for a failed begin too
  void begin();

  Stream stream_;
  std::optional<CaptureFrame> frame_;  ///< on a GPU
  bool is_capturing_ = false;
  std::shared_ptr<Recording> recording_;
  std::optional<RecordingScope> scope_;
};

}  // namespace kiln
