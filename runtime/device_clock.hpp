#pragma once

#include <chrono>

#include "runtime/event.hpp"

namespace kiln {

/// Places the timed events of one device on the host's steady clock, by one event whose time on both was taken.
class DeviceClock {
 public:
  /// Waits for an event on a stream of its own, not for the device. DeviceError.
  explicit DeviceClock(Device device);

  /// When the mark of a timed event was reached, which it must have been. The driver tells times as single-precision
  /// milliseconds, so the error grows with the distance from the construction: 4 us after a minute. So does what the
  /// two clocks drift apart, some microseconds in a second.
  std::chrono::steady_clock::time_point time_of(const Event& event) const;

 private:
  Event reference_;
  std::chrono::steady_clock::time_point reference_time_;
};

}  // namespace kiln
