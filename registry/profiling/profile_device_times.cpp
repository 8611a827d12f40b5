#include "registry/profiling/profile_device_times.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <new>

namespace kiln {
namespace {

/// To make an event costs about as much as to record one, so the first launch on a device makes enough for many.
constexpr std::size_t kEventsMade = 16384;
constexpr std::size_t kMostPerRequest = 256;
/// Launches of a thread whose events wait before they are read while recording.
constexpr std::size_t kMostPending = 32768;

ProfileTime after(ProfileTime time, double us) {
  return time + std::chrono::nanoseconds(std::llround(us * 1e3));
}

}  // namespace

const DeviceClock& ProfileDevices::clock_of(Device device) {
  const std::lock_guard lock(mutex_);
  return entry_of(device).clock;
}

std::vector<Event> ProfileDevices::take_events(Device device, std::size_t count) {
  const std::lock_guard lock(mutex_);
  std::vector<Event>& events = entry_of(device).events;
  if (events.empty()) {
    events.reserve(kEventsMade);
    for (std::size_t i = 0; i < kEventsMade; ++i) events.emplace_back(device, /*is_timed=*/true);
  }
  const auto first = events.end() - static_cast<std::ptrdiff_t>(std::min(count, events.size()));
  std::vector<Event> taken(std::make_move_iterator(first), std::make_move_iterator(events.end()));
  events.erase(first, events.end());
  return taken;
}

Event ProfileDeviceTimes::take(Device device, std::vector<CallRecord>& calls) {
  std::vector<Event>& free = free_[device];
  if (free.empty() && pending_.size() >= kMostPending) read(calls, /*wait=*/false);
  if (free.empty()) {
    free = devices_->take_events(device, next_request_);
    next_request_ = std::min(2 * next_request_, kMostPerRequest);
  }
  Event event = std::move(free.back());
  free.pop_back();
  return event;
}

void ProfileDeviceTimes::give_back(Event event) noexcept {
  try {
    free_[event.device()].push_back(std::move(event));
  } catch (const std::bad_alloc&) {
    return;  // one event fewer
  }
}

void ProfileDeviceTimes::add(std::size_t call, Event start, Event stop) {
  pending_.push_back({call, std::move(start), std::move(stop)});
}

void ProfileDeviceTimes::read(std::vector<CallRecord>& calls, bool wait) {
  std::size_t done = 0;
  try {
    for (; done < pending_.size(); ++done) {
      Pending& pending = pending_[done];
      if (wait)
        pending.stop.synchronize();
      else if (!pending.stop.is_done())
        break;
      read_one(pending, calls[pending.call]);
    }
  } catch (...) {
    pending_.clear();
    throw;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(done));
}

void ProfileDeviceTimes::read_one(Pending& pending, CallRecord& call) {
  const Device device = call.stream.device;
  const auto key = std::pair(device, call.stream.handle);
  const auto anchor = anchors_.find(key);
  call.device_start = anchor == anchors_.end()
                          ? devices_->clock_of(device).time_of(pending.start)
                          : after(anchor->second.time, elapsed_us(anchor->second.event, pending.start));
  call.device_us = elapsed_us(pending.start, pending.stop);
  const ProfileTime stopped = call.device_end = after(call.device_start, call.device_us);
  std::vector<Event>& free = free_[device];
  free.push_back(std::move(pending.start));
  if (anchor == anchors_.end()) {
    anchors_.emplace(key, Anchor{std::move(pending.stop), stopped});
  } else {
    free.push_back(std::exchange(anchor->second.event, std::move(pending.stop)));
    anchor->second.time = stopped;
  }
}

}  // namespace kiln
