#include "registry/profiling/profiled_call.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "registry/plan/plan.hpp"
#include "registry/plan/tuning_scope.hpp"
#include "registry/profiling/profile_session.hpp"
#include "runtime/nvtx.hpp"
#include "runtime/observers.hpp"

namespace kiln {
namespace {

constinit thread_local ProfiledCall* current_call = nullptr;
constinit thread_local ProfiledPhase* current_phase = nullptr;

ProfileTime now() noexcept {
  return std::chrono::steady_clock::now();
}

void around_call(std::string_view op, const std::function<void(CallObserver&)>& call) {
  ProfiledCall observer(op);
  call(observer);
}

void around_graph_launch(Stream stream, bool is_recorded, const std::function<void()>& launch) {
  ProfiledCall call("graph");
  call.before_launch(nullptr, stream, is_recorded);
  launch();
  call.after_launch();
}

}  // namespace

ProfiledCall::ProfiledCall(std::string_view op) : outer_(current_call) {
  begin(op);
  current_call = this;  // nothing fails any more: the destructor will take it back
}

void ProfiledCall::begin(std::string_view op) {
  if (inside_tuning()) return;
  const ThreadRecorder* const recorder = ProfileSession::recorder();
  if (recorder == nullptr) return;
  session_ = recorder->session_number;
  record_.region = recorder->region;
  is_nvtx_range_ = recorder->options.nvtx;
  if (is_nvtx_range_) push_nvtx_range(std::string(op).c_str());
  record_.start = now();
}

ProfiledCall::~ProfiledCall() {
  record_.end = now();
  current_call = outer_;
  if (is_nvtx_range_) pop_nvtx_range();
  if (session_ == 0) return;
  ThreadRecorder* const recorder = ProfileSession::recorder(session_);
  if (recorder == nullptr) return;
  const std::lock_guard lock(recorder->mutex);
  if (recorder->session == nullptr) return;
  add_to(*recorder);
  for (std::optional<Event>* const event : {&start_, &stop_})  // of a call that was not taken down
    if (event->has_value()) recorder->device_times.give_back(*std::move(*event));
}

void ProfiledCall::add_to(ThreadRecorder& recorder) {
  ThreadRecords& records = recorder.records;
  if (!is_done_) {
    ++records.failed;
    return;
  }
  if (!recorder.make_room()) return;
  if (!record_.stream.device.is_cuda() && !record_.captured) {
    record_.device_start = record_.launch_start;
    record_.device_end = record_.launch_end;
    record_.device_us = to_us(record_.launch_end - record_.launch_start);
  }
  try {
    if (plan_ != nullptr)
      if (auto& kept = records.plans[plan_.get()]; kept == nullptr) kept = std::move(plan_);
    records.calls.push_back(record_);
    if (start_.has_value() && stop_.has_value()) {
      recorder.device_times.add(records.calls.size() - 1, *std::move(start_), *std::move(stop_));
      start_.reset();
      stop_.reset();
    }
  } catch (const std::bad_alloc&) {
    ++records.dropped;
  }
}

void ProfiledCall::before_launch(const Plan* plan, Stream stream, bool is_recorded) {
  if (session_ == 0) return;
  if (plan != nullptr) plan_ = plan->shared_from_this();
  record_.plan = plan;
  record_.stream = stream;
  record_.captured = is_recorded;
  record_.launch_start = now();
  ThreadRecorder* const recorder = ProfileSession::recorder(session_);
  if (is_recorded || recorder == nullptr) return;
  // CUPTI tells later which ops were captured by others; a graph launched there is no launch to it.
  if (recorder->gpu_timing == GpuTiming::by_cupti && plan != nullptr) return;
  const ProfileTime start = record_.launch_start;
  try {
    record_.captured = is_capturing(stream);
    if (stream.device.is_cuda() && !record_.captured) start_timing(*recorder, stream);
  } catch (const DeviceError&) {
    start_.reset();  // the launch itself will say what is wrong
  }
  record_.launch_start = now();
  record_.own += record_.launch_start - start;
}

void ProfiledCall::start_timing(ThreadRecorder& recorder, Stream stream) {
  if (recorder.gpu_timing == GpuTiming::off) return;
  {
    const std::lock_guard lock(recorder.mutex);
    if (recorder.session == nullptr) return;
    if (recorder.gpu_timing == GpuTiming::undecided)
      recorder.gpu_timing = recorder.session->timing.uses_events() ? GpuTiming::by_events : GpuTiming::by_cupti;
    if (recorder.gpu_timing == GpuTiming::by_cupti) return;
    stop_.emplace(recorder.device_times.take(stream.device, recorder.records.calls));
    start_.emplace(recorder.device_times.take(stream.device, recorder.records.calls));
  }
  start_->record(stream);
}

void ProfiledCall::after_launch() {
  if (session_ == 0) return;
  record_.launch_end = now();
  is_done_ = true;
  if (!start_.has_value()) return;
  try {
    stop_->record(record_.stream);
  } catch (const DeviceError&) {
    stop_.reset();
  }
  record_.own += now() - record_.launch_end;
}

std::unique_ptr<PhaseObserver> ProfiledPhase::begin(ProfilePhase phase, std::string_view op, std::string_view kernel) {
  // A tuning is one phase; what it does in order to measure is none.
  if (inside_tuning() && phase != ProfilePhase::tune) return nullptr;
  const ThreadRecorder* const recorder = ProfileSession::recorder();
  return recorder == nullptr ? nullptr : std::make_unique<ProfiledPhase>(*recorder, phase, op, kernel);
}

ProfiledPhase::ProfiledPhase(const ThreadRecorder& recorder, ProfilePhase phase, std::string_view op,
                             std::string_view kernel)
    : outer_(current_phase),
      call_(current_call),
      session_(recorder.session_number),
      record_{phase, std::string(op), std::string(kernel), now(), {}, 0, recorder.region} {
  current_phase = this;
}

ProfiledPhase::~ProfiledPhase() {
  current_phase = outer_;
  record_.end = now();
  const ProfileDuration duration = record_.end - record_.start;
  record_.self_us = to_us(duration) - inner_us_;
  if (outer_ != nullptr) outer_->inner_us_ += to_us(duration);
  if (call_ != nullptr && (outer_ == nullptr || outer_->call_ != call_)) call_->add_cold(duration);
  ThreadRecorder* const recorder = ProfileSession::recorder(session_);
  if (recorder == nullptr) return;
  const std::lock_guard lock(recorder->mutex);
  if (recorder->session != nullptr) recorder->records.phases.push_back(std::move(record_));
}

void take_down_calls() noexcept {
  static constexpr Observation kObservation{around_call, ProfiledPhase::begin};
  set_observation(kObservation);
  graph_launch_observer.store(around_graph_launch);
}

}  // namespace kiln
