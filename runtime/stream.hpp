#pragma once

#include <utility>

#include "runtime/stream_handle.hpp"

namespace kiln {

/// {0, 0} where there are none, as on the CPU. DeviceError when the device is absent.
StreamPriorityRange stream_priority_range(Device device);

/// A stream that Kiln made (non-blocking). DeviceError when the device is absent.
class OwnedStream {
 public:
  /// `priority` is clamped to the device's range. It decides which stream's waiting work starts first; what runs
  /// already goes on.
  explicit OwnedStream(Device device, int priority = 0);
  ~OwnedStream();
  OwnedStream(OwnedStream&& other) noexcept : stream_(std::exchange(other.stream_, {})) {}
  OwnedStream& operator=(OwnedStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  Stream get() const noexcept { return stream_; }
  operator Stream() const noexcept { return stream_; }

 private:
  Stream stream_;
};

/// 0 on the CPU. DeviceError when the device is absent.
int stream_priority(Stream stream);
/// Work enqueued on `stream` from now on starts after all work that is on `other` now; the host goes on. The streams
/// may be of two devices. Work of the CPU runs on the host: a CPU stream that waits is the host that waits, and there
/// is never anything to wait for on one. While `other` is captured, `stream` joins the capture. UsageError(value), and
/// the capture goes on, for a captured stream that shall wait for one outside or in another capture, for the host that
/// shall wait for a captured one, and for a stream of another device that would join a recording of kiln::capture's.
void wait_stream(Stream stream, Stream other);
/// Blocks until the stream's work is done; asynchronous kernel faults surface here as DeviceError. UsageError(value)
/// while `stream` is being captured, which goes on.
void synchronize(Stream stream);
/// True while `stream` is being captured into a graph; on the CPU, while the calling thread records one.
bool is_capturing(Stream stream);

}  // namespace kiln
