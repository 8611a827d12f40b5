#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/device.hpp"
#include "registry/profiling/profile_records.hpp"
#include "runtime/device_clock.hpp"
#include "runtime/event.hpp"

namespace kiln {

/// What all threads of a profile share of the GPUs it met.
class ProfileDevices {
 public:
  /// Set at the device's first use. DeviceError.
  const DeviceClock& clock_of(Device device);
  /// Up to `count` timed events, at least one, of many that are made at a time, the first of them with the device's
  /// clock. DeviceError.
  std::vector<Event> take_events(Device device, std::size_t count);

 private:
  struct Entry {
    explicit Entry(Device device) : clock(device) {}
    DeviceClock clock;
    std::vector<Event> events;
  };
  Entry& entry_of(Device device) { return entries_.try_emplace(device, device).first->second; }

  std::mutex mutex_;
  std::map<Device, Entry> entries_;
};

/// One thread's events around launches on GPUs. They are read long after, many at a time: to ask the driver for a time
/// costs as much as to record an event.
class ProfileDeviceTimes {
 public:
  explicit ProfileDeviceTimes(ProfileDevices& devices) : devices_(&devices) {}

  /// A timed event. Where very many wait to be read, those of `calls` that are done are read first. DeviceError.
  Event take(Device device, std::vector<CallRecord>& calls);
  /// An event that `take` gave and nobody needs.
  void give_back(Event event) noexcept;
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

  ProfileDevices* devices_;
  std::vector<Pending> pending_;
  std::map<Device, std::vector<Event>> free_;
  std::size_t next_request_ = 8;  ///< events that are asked for at a time: more each time, for most threads need few
  std::map<std::pair<Device, void*>, Anchor> anchors_;  ///< by stream
};

}  // namespace kiln
