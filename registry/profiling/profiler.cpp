#include "registry/profiling/profiler.hpp"

#include <mutex>

#include "core/errors.hpp"
#include "registry/profiling/known_peak.hpp"
#include "registry/profiling/profile_session.hpp"
#include "registry/profiling/profile_trace.hpp"
#include "registry/profiling/profiled_call.hpp"
#include "runtime/nvtx.hpp"

namespace kiln {

Profiler::Profiler(ProfilerOptions options) : session_(std::make_shared<ProfileSession>(options)) {
  if (options.nvtx && !has_nvtx())
    throw_not_implemented("NVTX ranges were asked for, and this build has no NVTX: it comes with the CUDA toolkit");
  take_down_calls();
  ProfileSession::start(session_);
  if (!options.device_time || options.device_time_source != DeviceTimeSource::cupti) return;
  try {
    session_->timing.uses_events();
  } catch (...) {
    session_->stop();
    throw;
  }
}

Profiler::~Profiler() {
  if (!is_running_) return;
  try {
    stop();
  } catch (const std::exception&) {
    return;  // a GPU's failure meets whoever waits for its stream
  }
}

void Profiler::stop() {
  if (!is_running_) throw_value_error("this profiler was stopped already");
  is_running_ = false;
  session_->stop();
}

ProfileReport Profiler::report(const RooflinePeaks& peaks) {
  if (is_running_) stop();
  return make_report(*session_, peaks);
}

void Profiler::write_trace(const std::string& path) const {
  if (is_running_) throw_value_error("the trace of a profiler that still runs was asked for: call stop() first");
  write_profile_trace(*session_, path);
}

ProfilerRegion::ProfilerRegion(std::string_view name) {
  if (is_observed()) begin(name);
}

ProfilerRegion::~ProfilerRegion() {
  if (session_ != 0) end();
}

void ProfilerRegion::begin(std::string_view name) {
  ThreadRecorder* const recorder = ProfileSession::recorder();
  if (recorder == nullptr) return;
  const std::lock_guard lock(recorder->mutex);
  if (recorder->session == nullptr) return;
  session_ = recorder->session_number;
  outer_ = recorder->region;
  region_ = recorder->region_in(outer_, name);
  recorder->region = region_;
  is_nvtx_range_ = recorder->options.nvtx;
  if (is_nvtx_range_) push_nvtx_range(std::string(name).c_str());
  start_ = std::chrono::steady_clock::now();
}

void ProfilerRegion::end() noexcept {
  const auto end = std::chrono::steady_clock::now();
  if (is_nvtx_range_) pop_nvtx_range();
  ThreadRecorder* const recorder = ProfileSession::recorder(session_);
  if (recorder == nullptr) return;
  recorder->region = outer_;
  if (region_ == outer_) return;  // there was no room for its name
  const std::lock_guard lock(recorder->mutex);
  if (recorder->session == nullptr || !recorder->make_room()) return;
  try {
    recorder->records.regions.push_back({region_, start_, end});
  } catch (const std::bad_alloc&) {
    ++recorder->records.dropped;
  }
}

}  // namespace kiln
