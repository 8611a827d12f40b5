#pragma once

#include "core/device.hpp"

namespace kiln {

/// A handle to a queue of work on one device; does not own it. On the CPU every launch is synchronous and the handle is
/// null. A null CUDA handle is the legacy default stream, which torch uses too.
struct Stream {
  Device device;
  void* handle = nullptr;  ///< CUstream

  static Stream default_of(Device device) noexcept { return {device, nullptr}; }
};

/// A stream that Kiln made (non-blocking). DeviceError when the device is absent.
class OwnedStream {
 public:
  explicit OwnedStream(Device device);
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  Stream get() const noexcept { return stream_; }
  operator Stream() const noexcept { return stream_; }

 private:
  Stream stream_;
};

/// Blocks until the stream's work is done; asynchronous kernel faults surface here as DeviceError. UsageError(value)
/// while `stream` is being captured, which goes on.
void synchronize(Stream stream);
/// True while `stream` is being captured into a graph; on the CPU, while the calling thread records one.
bool is_capturing(Stream stream);

}  // namespace kiln
