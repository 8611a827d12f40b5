#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/device.hpp"
#include "registry/profile_records.hpp"
#include "runtime/device_clock.hpp"
#include "runtime/event.hpp"

namespace kiln {

/// The clocks of the devices that a profile met, for all its threads.
class ProfileClocks {
 public:
  /// Set at the first use. DeviceError.
  const DeviceClock& of(Device device);

 private:
  std::mutex mutex_;
  std::map<Device, DeviceClock> clocks_;
};

/// One thread's events around launches on GPUs. They are read long after, many at a time: to ask the driver for a time
/// costs as much as to record an event.
class ProfileDeviceTimes {
 public:
  explicit ProfileDeviceTimes(ProfileClocks& clocks) : clocks_(&clocks) {}

  /// A timed event of many that are made at a time. Where very many wait to be read, those of `calls` that are done are
  /// read first. DeviceError.
  Event take(Device device, std::vector<CallRecord>& calls);
  /// The events around the launch of `calls[call]`, as they will be given to `take` and `read`.
  void add(std::size_t call, Event start, Event stop);
  /// Sets the device times of the calls that are done, oldest first; of all of them, which it waits for, with `wait`.
  /// DeviceError: the times that are not read yet are lost.
  void read(std::vector<CallRecord>& calls, bool wait);

 private:
  struct Pending {
    std::size_t call;
    Event start, stop;
  };
  /// The event that was read last on a stream, and when it was reached: differences to it are exact.
  struct Anchor {
    Event event;
    ProfileTime time;
  };
  void read_one(Pending& pending, CallRecord& call);

  ProfileClocks* clocks_;
  std::vector<Pending> pending_;
  std::map<Device, std::vector<Event>> free_;
  std::map<std::pair<Device, void*>, Anchor> anchors_;  ///< by stream
};

}  // namespace kiln
