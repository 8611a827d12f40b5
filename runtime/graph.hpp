#pragma once

#include <functional>

#include "runtime/stream.hpp"

namespace kiln {

/// Work of one CUDA stream, recorded once and replayed with one call. What it launches reads and writes the addresses
/// that were given when it was recorded, so that memory must outlive the graph; memory that was allocated while
/// recording belongs to the graph and holds its last replay's values until the next.
class Graph {
 public:
  /// Records what `body` enqueues on `stream`; nothing runs. Exceptions of `body` pass through and end the recording.
  /// UsageError(not_implemented) for a CPU stream, UsageError(value) for the default stream, which CUDA cannot record;
  /// DeviceError.
  static Graph capture(Stream stream, const std::function<void()>& body);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  /// Enqueues the recorded work on a stream of the same device. UsageError(value) for another device; DeviceError.
  void launch(Stream stream) const;

 private:
  Graph(Device device, void* executable) noexcept : device_(device), executable_(executable) {}
  void replay(Stream stream) const;

  Device device_;
  void* executable_;
};

}  // namespace kiln
