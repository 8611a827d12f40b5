#include "registry/profile_timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "core/errors.hpp"
#include "registry/plan.hpp"
#include "runtime/stream.hpp"

namespace kiln {
namespace {

constexpr std::chrono::microseconds kLongestPause(10'000);
/// How long nothing may come, where other threads go on launching, before the rest counts as lost.
constexpr std::chrono::seconds kPatience(10);

bool runs_on_gpu(const CallRecord& call) {
  return call.stream.device.is_cuda() && !call.captured;
}

bool launches_nothing(const CallRecord& call) {
  return call.plan != nullptr && call.plan->steps.empty();
}

/// The kernels of a launch that began before those of an earlier one ended count once.
void add_launch(CallRecord& call, const LaunchActivity& launch) {
  if (call.device_us < 0) {
    call.device_start = launch.start;
    call.device_end = launch.end;
    call.device_us = to_us(launch.end - launch.start);
    return;
  }
  call.device_us += std::max(0.0, to_us(launch.end - std::max(launch.start, call.device_end)));
  call.device_start = std::min(call.device_start, launch.start);
  call.device_end = std::max(call.device_end, launch.end);
}

/// How many calls have no time.
std::size_t set_all(std::span<ThreadRecords> threads, const std::vector<LaunchActivity>& launches, bool is_all) {
  const auto by_thread = [](const LaunchActivity& a, const LaunchActivity& b) { return a.thread < b.thread; };
  std::size_t missing = 0;
  for (ThreadRecords& thread : threads) {
    std::size_t missing_of_thread = 0;
    for (const std::uint32_t name : {static_cast<std::uint32_t>(thread.thread_id), thread.pthread_id}) {
      LaunchActivity wanted;
      wanted.thread = name;
      const auto [first, last] = std::equal_range(launches.begin(), launches.end(), wanted, by_thread);
      missing_of_thread = set_device_times(thread.calls, {first, last}, is_all);
    }
    missing += missing_of_thread;
  }
  return missing;
}

}  // namespace

bool ProfileTiming::uses_events() {
  const std::lock_guard lock(mutex_);
  if (is_decided_) return !is_by_cupti_;
  if (source_ != DeviceTimeSource::events) {
    try {
      activity_.emplace(max_launches_);
      is_by_cupti_ = true;
    } catch (const DeviceError& error) {
      if (source_ == DeviceTimeSource::cupti) throw;
      problem_ = error.what();
    }
  }
  is_decided_ = true;
  return !is_by_cupti_;
}

void ProfileTiming::finish(std::span<ThreadRecords> threads) {
  const std::lock_guard lock(mutex_);
  if (!activity_.has_value()) return;
  try {
    wait_for_kernels(threads);
  } catch (...) {
    activity_.reset();
    throw;
  }
  activity_.reset();
}

/// Waiting for the devices was the alternative. The driver refuses that while any stream of the process is captured,
/// and ends the capture; streams may be gone by now.
void ProfileTiming::wait_for_kernels(std::span<ThreadRecords> threads) {
  std::map<Device, OwnedStream> streams;
  for (const ThreadRecords& thread : threads)
    for (const CallRecord& call : thread.calls)
      if (runs_on_gpu(call)) streams.try_emplace(call.stream.device, call.stream.device);
  std::size_t missing_before = 0;
  auto last_news = std::chrono::steady_clock::now();
  for (std::chrono::microseconds pause(100);; pause = std::min(2 * pause, kLongestPause)) {
    const bool is_all = activity_->flush();
    const std::size_t missing = set_all(threads, activity_->launches(), is_all);
    for (const auto& [device, stream] : streams) synchronize(stream);  // where a kernel failed everything fails
    const auto now = std::chrono::steady_clock::now();
    if (missing != missing_before) last_news = now;
    missing_before = missing;
    if (is_all || missing == 0 || now - last_news > kPatience) return;
    std::this_thread::sleep_for(pause);
  }
}

std::string ProfileTiming::text() const {
  if (!is_decided_) return {};
  if (is_by_cupti_) return "by CUPTI";
  return fmt::format(
      "by events: kernels of a few microseconds appear longer, since the host's launch lies between the events ({})",
      problem_.empty() ? "as asked for" : "CUPTI cannot be used: " + problem_);
}

std::size_t set_device_times(std::vector<CallRecord>& calls, std::span<const LaunchActivity> launches, bool is_all) {
  std::vector<CallRecord*> untimed;  // a call that another one makes for itself launches first
  for (CallRecord& call : calls)
    if (runs_on_gpu(call) && call.device_us < 0) untimed.push_back(&call);
  std::sort(untimed.begin(), untimed.end(),
            [](const CallRecord* a, const CallRecord* b) { return a->launch_start < b->launch_start; });
  auto launch = launches.begin();
  std::size_t missing = 0;
  for (CallRecord* const call : untimed) {
    while (launch != launches.end() && launch->launched < call->launch_start) ++launch;
    bool has_launched = false;
    for (; launch != launches.end() && launch->launched <= call->launch_end; ++launch) {
      has_launched = true;
      if (launch->has_run) add_launch(*call, *launch);
    }
    if (call->device_us >= 0 || launches_nothing(*call)) continue;
    call->captured = is_all && has_launched && call->plan != nullptr;
    if (!call->captured) ++missing;
  }
  return missing;
}

}  // namespace kiln
