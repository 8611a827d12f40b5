#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "registry/plan/call_observer.hpp"
#include "registry/profiling/profile_records.hpp"
#include "runtime/event.hpp"
#include "runtime/stream.hpp"

namespace kiln {

struct ThreadRecorder;

/// Takes down one call of an op while it lives, from the first look at its arguments to its return; nothing where no
/// profiler runs. What a tuning calls is not taken down.
class ProfiledCall final : public CallObserver {
 public:
  explicit ProfiledCall(std::string_view op);
  ~ProfiledCall();

  void before_launch(const Plan* plan, Stream stream, bool is_recorded) override;
  void after_launch() override;
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

/// Takes down one phase of making a plan while it lives.
class ProfiledPhase final : public PhaseObserver {
 public:
  /// Null where no profiler runs, and inside a tuning.
  static std::unique_ptr<PhaseObserver> begin(ProfilePhase phase, std::string_view op, std::string_view kernel);

  ProfiledPhase(const ThreadRecorder& recorder, ProfilePhase phase, std::string_view op, std::string_view kernel);
  ~ProfiledPhase() override;

  void turned_out(ProfilePhase phase) noexcept override { record_.phase = phase; }

 private:
  ProfiledPhase* const outer_;
  ProfiledCall* const call_;  ///< that needs the plan; null for none
  const std::uint64_t session_;
  double inner_us_ = 0;
  PhaseRecord record_;
};

/// From here on calls, phases and launches of graphs are shown to the profiler that runs, if one does.
void take_down_calls() noexcept;

}  // namespace kiln
