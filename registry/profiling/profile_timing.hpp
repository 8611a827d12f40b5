#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "registry/profiling/profile_records.hpp"
#include "registry/profiling/profiler_options.hpp"
#include "runtime/kernel_activity.hpp"

namespace kiln {

/// How a profile times what runs on GPUs: by CUPTI or, call by call, by events. It is decided at the first launch on a
/// GPU, for to start CUPTI starts the driver, and a process that has not used it may be forked.
class ProfileTiming {
 public:
  explicit ProfileTiming(const ProfilerOptions& options)
      : source_(options.device_time_source),
        max_launches_(kLaunchesPerCall * std::min(options.max_records, kMostLaunches)) {}

  /// Decides if nobody has. DeviceError where CUPTI was asked for and cannot be used.
  bool uses_events();
  /// Ends what was begun. Where that was CUPTI it waits for the calls' kernels and gives the calls their times.
  /// DeviceError when work on a GPU failed.
  void finish(std::span<ThreadRecords> threads);
  /// The copies and sets that GPUs made meanwhile, from the first launch on; none without CUPTI. After `finish`.
  const std::vector<MemoryActivity>& memory() const noexcept { return memory_; }
  /// How it was decided, for the report; empty where it was not.
  std::string text() const;

 private:
  /// Most calls are one launch; with room for more a full record of calls that are several has all its times.
  static constexpr std::size_t kLaunchesPerCall = 4;
  static constexpr std::size_t kMostLaunches = std::numeric_limits<std::size_t>::max() / kLaunchesPerCall;

  void wait_for_kernels(std::span<ThreadRecords> threads);

  const DeviceTimeSource source_;
  const std::size_t max_launches_;
  std::mutex mutex_;  ///< of the decision
  bool is_decided_ = false;
  bool is_by_cupti_ = false;
  std::string problem_;  ///< of CUPTI
  std::optional<KernelActivity> activity_;
  std::vector<MemoryActivity> memory_;
};

/// Whether a plan's calls put nothing on a GPU: it has no kernels, or they have no programs. Not so for null, a graph.
bool launches_nothing(const Plan* plan);

/// Gives the calls of a thread the times of the launches that they made, which are in the order of `launched`, in place
/// of those that they have. With `is_all` what launched and did not run was captured. How many have no time and were
/// not captured.
std::size_t set_device_times(std::vector<CallRecord>& calls, std::span<const LaunchActivity> launches, bool is_all);

}  // namespace kiln
