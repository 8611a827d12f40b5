#include "registry/profile_device_times.hpp"

#include <chrono>
#include <cstdint>

namespace kiln {
namespace {

/// To make an event costs about as much as to record one, so the first launch on a device makes enough for many.
constexpr std::size_t kEventsPerBlock = 8192;
/// Launches whose events wait before they are read while recording.
constexpr std::size_t kMostPending = 32768;

ProfileTime after(ProfileTime time, double us) {
  return time + std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1e3));
}

}  // namespace

const DeviceClock& ProfileClocks::of(Device device) {
  const std::lock_guard lock(mutex_);
  return clocks_.try_emplace(device, device).first->second;
}

Event ProfileDeviceTimes::take(Device device, std::vector<CallRecord>& calls) {
  std::vector<Event>& free = free_[device];
  if (free.empty() && pending_.size() >= kMostPending) read(calls, /*wait=*/false);
  if (free.empty()) {
    clocks_->of(device);  // now: its error grows with the distance
    free.reserve(kEventsPerBlock);
    for (std::size_t i = 0; i < kEventsPerBlock; ++i) free.emplace_back(device, /*is_timed=*/true);
  }
  Event event = std::move(free.back());
  free.pop_back();
  return event;
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
                          ? clocks_->of(device).time_of(pending.start)
                          : after(anchor->second.time, elapsed_us(anchor->second.event, pending.start));
  call.device_us = elapsed_us(pending.start, pending.stop);
  const ProfileTime stopped = after(call.device_start, call.device_us);
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
