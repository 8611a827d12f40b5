#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "registry/profiling/known_peak.hpp"
#include "registry/profiling/profile_report.hpp"
#include "registry/profiling/profiler_options.hpp"

namespace kiln {

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
