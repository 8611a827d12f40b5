#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/stream_handle.hpp"

namespace kiln {

/// A mark in the work of a stream: others wait for it, and the host asks whether it was reached. Work on the CPU is
/// done when the call that starts it returns, so an event of the CPU is always reached. Safe to wait for from several
/// threads while nobody records it.
class Event {
 public:
  /// Not recorded yet, which counts as reached. Events that are not `is_timed` cost the device less and cannot be given
  /// to elapsed_us. DeviceError when the device is absent.
  explicit Event(Device device, bool is_timed = false);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  /// Moves the mark behind all work enqueued on `stream` so far; waits that were enqueued before keep the old one.
  /// UsageError(value) for a stream of another device. Recorded while kiln::capture records the stream, the mark is a
  /// place in the graph: streams may wait for it within the recording, the host may not (UsageError(value)).
  void record(Stream stream);
  /// Work enqueued on `stream` from now on starts after the mark is reached; the host goes on. `stream` may be of
  /// another device; one of the CPU makes the host wait, as its work runs on the host. A mark that is a place in a
  /// graph makes `stream` part of the recording. UsageError(value), and recordings go on, where a stream that
  /// kiln::capture records would wait for a mark from outside of the recording, and where one would join that is
  /// captured already, of another device, or the default stream.
  void wait(Stream stream) const;
  /// Whether the mark was reached. DeviceError when work before it failed.
  bool is_done() const;
  /// Blocks until the mark is reached. DeviceError when work before it failed.
  void synchronize() const;

  Device device() const noexcept { return device_; }

 private:
  friend double elapsed_us(const Event& start, const Event& stop);
  void refuse_captured() const;
  void refuse_to_cross(Stream stream) const;
  Device device_;
  bool is_timed_;
  std::uint64_t capture_id_ = 0;                         ///< of Kiln's recording where last recorded; 0 outside
  void* handle_ = nullptr;                               ///< CUevent; null on the CPU
  std::chrono::steady_clock::time_point recorded_at_{};  ///< on the CPU
};

/// Microseconds between two marks of one device that were both reached. UsageError(value) for events that are not timed
/// or of two devices; DeviceError when one is not recorded or not reached.
double elapsed_us(const Event& start, const Event& stop);

}  // namespace kiln
