#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "registry/profiling/profile_device_times.hpp"
#include "registry/profiling/profile_records.hpp"
#include "registry/profiling/profile_timing.hpp"
#include "registry/profiling/profiler_options.hpp"
#include "runtime/observers.hpp"

namespace kiln {

class ProfileSession;

/// How one thread times launches on GPUs.
enum class GpuTiming { off, undecided, by_events, by_cupti };

/// Takes down what one thread does, under a lock that nobody else takes before the profiler stops.
struct ThreadRecorder {
  ThreadRecorder(ProfileSession& of, std::uint64_t number);

  /// Whether one more record may be added; counts it as dropped otherwise.
  bool make_room();
  /// The number of the region of this name in `outer`. A new name takes a record, for programs may make names up as
  /// they go; where there is no room it is `outer`.
  std::uint32_t region_in(std::uint32_t outer, std::string_view name);

  const std::uint64_t session_number;
  const ProfilerOptions options;
  // For the thread alone.
  std::uint32_t region = 0;  ///< that it is in
  GpuTiming gpu_timing;

  std::mutex mutex;         ///< of what follows
  ProfileSession* session;  ///< null: the profiler stopped, and nothing is taken down any more
  ThreadRecords records;
  ProfileDeviceTimes device_times;
  std::size_t room = 0;          ///< records that may be added before the session is asked
  std::size_t next_request = 8;  ///< for how many it is asked then: more each time, for most threads need few
};

/// All of one profiler, while it runs and after.
class ProfileSession {
 public:
  explicit ProfileSession(const ProfilerOptions& given) : options(given), timing(given) {}
  ProfileSession(const ProfileSession&) = delete;
  ProfileSession& operator=(const ProfileSession&) = delete;

  /// Begins recording. UsageError(value) when another session records.
  static void start(const std::shared_ptr<ProfileSession>& session);
  /// The calling thread's in the session that records, made at its first use; null when there is none. Good until the
  /// thread asks again.
  static ThreadRecorder* recorder();
  /// The same, of this session only: another may have begun since.
  static ThreadRecorder* recorder(std::uint64_t session_number);

  /// Ends recording on all threads, then waits for what was launched on GPUs. DeviceError when that failed: the session
  /// is stopped all the same, and launches whose time is lost have none.
  void stop();
  /// Room for up to `count` more records.
  std::size_t reserve(std::size_t count) noexcept;

  const ProfilerOptions options;
  ProfileTime start_time, stop_time;   ///< the second one after `stop`
  std::vector<ThreadRecords> threads;  ///< after `stop`, in order of their first record
  ProfileDevices devices;
  ProfileTiming timing;

 private:
  std::vector<std::shared_ptr<ThreadRecorder>> recorders_;  ///< while recording
  std::atomic<std::size_t> reserved_{0};
  std::optional<ObserverCount> observing_;
};

}  // namespace kiln
