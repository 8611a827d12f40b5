#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "registry/profile_report.hpp"

namespace kiln {

/// How work on GPUs is timed.
enum class DeviceTimeSource {
  automatic,  ///< CUPTI where it can be used, else events; the report says which, and why
  cupti,      ///< NVIDIA's profiling library: what the GPU took down of each kernel
  events,     ///< two events around each launch: small kernels appear longer, and a call costs the host more
};

struct ProfilerOptions {
  /// Ranges around calls and regions for Nsight Systems and other tools that listen to NVTX.
  bool nvtx = false;
  /// Times work on GPUs. Without it only the host is timed.
  bool device_time = true;
  /// Calls, graph launches, regions and their names beyond these are counted and not kept; about 100 bytes each. While
  /// CUPTI times launches it keeps as much again for each of the process, whoever made it, up to 4 times as many.
  /// Threads reserve some at a time, first 8 and later up to 256, so several of them may keep a few less.
  std::size_t max_records = 1'000'000;
  /// Of work on GPUs, where `device_time`.
  DeviceTimeSource device_time_source = DeviceTimeSource::automatic;
};

class ProfileSession;

/// Records what all threads of the process dispatch, from its construction to `stop`. One at a time in a process.
/// Calls that a tuning makes are not among them; the tuning is, as a whole.
class Profiler {
 public:
  /// UsageError: value while another profiler runs, not_implemented for `nvtx` in a build without it. DeviceError where
  /// CUPTI is asked for and cannot be used.
  explicit Profiler(ProfilerOptions options = {});
  /// Stops it if it still runs.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends recording and waits for what was recorded on GPUs; with CUPTI only until nothing has come for 30 s. Calls
  /// that other threads are in the middle of are left out. UsageError(value) the second time. DeviceError when GPU work
  /// failed: the profiler is stopped then too.
  void stop();
  /// What was recorded; stops the profiler if it still runs. `peaks` say what the rooflines are made of.
  ProfileReport report(const RooflinePeaks& peaks = known_peak);
  /// Writes what was recorded for Perfetto or chrome://tracing (docs/profiling.md). A file is replaced as a whole or
  /// left as it was. UsageError(value) before `stop`, SystemError when the file system refuses.
  void write_trace(const std::string& path) const;

 private:
  std::shared_ptr<ProfileSession> session_;
  bool is_running_ = true;
};

/// Names the part of the program it is in scope of, on its thread. Regions nest; the report adds up the ops inside.
/// Nothing while no profiler runs. Ends where it began: on the same thread, the inner one before the outer one.
class ProfilerRegion {
 public:
  explicit ProfilerRegion(std::string_view name);
  ~ProfilerRegion();
  ProfilerRegion(const ProfilerRegion&) = delete;
  ProfilerRegion& operator=(const ProfilerRegion&) = delete;

 private:
  void begin(std::string_view name);
  void end() noexcept;

  std::uint64_t session_ = 0;  ///< 0: no profiler ran
  std::uint32_t region_ = 0, outer_ = 0;
  bool is_nvtx_range_ = false;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace kiln
