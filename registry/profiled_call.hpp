#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "registry/profile_records.hpp"
#include "runtime/event.hpp"
#include "runtime/stream.hpp"

namespace kiln {

struct Plan;
struct ThreadRecorder;

/// Takes down one call of an op while it lives, from the first look at its arguments to its return; nothing where no
/// profiler runs. What a tuning calls is not taken down. A call that ends before after_launch failed.
class ProfiledCall {
 public:
  explicit ProfiledCall(std::string_view op);
  ~ProfiledCall();
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;
  /// The innermost one on this thread; null when there is none.
  static ProfiledCall* current() noexcept;

  /// Around the launch. `plan` is null for a graph. `is_recorded`: Kiln records the stream, so that nothing runs.
  void before_launch(const Plan* plan, Stream stream, bool is_recorded);
  void after_launch();
  void add_cold(ProfileDuration duration) noexcept { record_.cold += duration; }

 private:
  void begin(std::string_view op);
  void start_timing(ThreadRecorder& recorder, Stream stream);
  void add_to(ThreadRecorder& recorder);

  ProfiledCall* const outer_;  ///< a spec's functions may call ops
  std::uint64_t session_ = 0;  ///< 0: nothing is taken down
  bool is_nvtx_range_ = false;
  bool is_done_ = false;
  std::shared_ptr<const Plan> plan_;  ///< of record_: caches may drop it before the call is over
  CallRecord record_;
  std::optional<Event> start_, stop_;
};

/// Takes down one phase of making a plan while it lives; nothing where no profiler runs, nor inside a tuning.
class ProfiledPhase {
 public:
  ProfiledPhase(ProfilePhase phase, std::string_view op, std::string_view kernel = {});
  ~ProfiledPhase();
  ProfiledPhase(const ProfiledPhase&) = delete;
  ProfiledPhase& operator=(const ProfiledPhase&) = delete;

  /// For work that shows only at its end which phase it was.
  void turned_out(ProfilePhase phase) noexcept { record_.phase = phase; }

 private:
  void begin(ProfilePhase phase, std::string_view op, std::string_view kernel);

  ProfiledPhase* const outer_;
  ProfiledCall* const call_;   ///< that needs the plan; null for none
  std::uint64_t session_ = 0;  ///< 0: nothing is taken down
  double inner_us_ = 0;
  PhaseRecord record_;
};

/// Takes down a launch of a graph; the runtime's GraphLaunchObserver.
void profiled_graph_launch(Stream stream, bool is_recorded, const std::function<void()>& launch);

}  // namespace kiln
