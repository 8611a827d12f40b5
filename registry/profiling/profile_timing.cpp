#include "registry/profiling/profile_timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <thread>

#include "core/errors.hpp"
#include "registry/plan/plan.hpp"
#include "runtime/stream.hpp"

namespace kiln {
namespace {

constexpr std::chrono::microseconds kLongestPause(10'000);
/// How long nothing may come before the rest counts as lost: CUPTI gives the kernels of a full queue all at once.
constexpr std::chrono::seconds kPatience(30);

bool runs_on_gpu(const CallRecord& call) {
  return call.stream.device.is_cuda() && !call.captured;
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
    LaunchActivity wanted;
    wanted.thread = thread.pthread_id;
    auto range = std::equal_range(launches.begin(), launches.end(), wanted, by_thread);
    if (range.first == range.second) {
      wanted.thread = static_cast<std::uint32_t>(thread.thread_id);
      range = std::equal_range(launches.begin(), launches.end(), wanted, by_thread);
    }
    missing += set_device_times(thread.calls, {range.first, range.second}, is_all);
  }
  return missing;
}

}  // namespace

bool launches_nothing(const Plan* plan) {
  return plan != nullptr && std::ranges::all_of(plan->steps, [](const Plan::Step& step) {
           return std::ranges::find(step.geometry.grid, 0) != step.geometry.grid.end();
         });
}

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
    memory_ = activity_->memory();
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
  std::size_t missing_before = std::numeric_limits<std::size_t>::max();
  auto last_news = std::chrono::steady_clock::now();
  for (std::chrono::microseconds pause(100);; pause = std::min(2 * pause, kLongestPause)) {
    const bool is_all = activity_->flush();
    const std::size_t missing = set_all(threads, activity_->launches(), is_all && activity_->is_complete());
    for (const auto& [device, stream] : streams) synchronize(stream);  // where a kernel failed everything fails
    const auto now = std::chrono::steady_clock::now();
    if (missing != missing_before) last_news = now;
    // A call of several kernels may lack one of them when it has its time: none is missing twice in a row.
    if (is_all || (missing == 0 && missing_before == 0) || now - last_news > kPatience) return;
    missing_before = missing;
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
  std::vector<CallRecord*> by_launch;  // a call that another one makes for itself launches first
  for (CallRecord& call : calls) {
    if (!runs_on_gpu(call)) continue;
    call.device_us = -1;
    by_launch.push_back(&call);
  }
  std::sort(by_launch.begin(), by_launch.end(),
            [](const CallRecord* a, const CallRecord* b) { return a->launch_start < b->launch_start; });
  auto launch = launches.begin();
  std::size_t missing = 0;
  for (CallRecord* const call : by_launch) {
    while (launch != launches.end() && launch->launched < call->launch_start) ++launch;
    bool has_launched = false;
    for (; launch != launches.end() && launch->launched <= call->launch_end; ++launch) {
      has_launched = true;
      if (launch->has_run) add_launch(*call, *launch);
    }
    if (call->device_us >= 0 || launches_nothing(call->plan)) continue;
    call->captured = is_all && has_launched && call->plan != nullptr;
    if (!call->captured) ++missing;
  }
  return missing;
}

}  // namespace kiln
