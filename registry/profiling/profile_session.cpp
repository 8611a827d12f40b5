#include "registry/profiling/profile_session.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "core/errors.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMostRecordsPerRequest = 256;

std::atomic<std::uint64_t> running_session{0};

struct Current {
  std::mutex mutex;
  std::shared_ptr<ProfileSession> session;
  std::uint64_t number = 0;  ///< of the session that was started last
};
Current& current() {
  static auto* const current = new Current;
  return *current;
}

thread_local std::shared_ptr<ThreadRecorder> recorder_of_this_thread;

std::string name_of_this_thread() {
  std::array<char, 64> name{};
  return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 ? name.data() : "";
}

}  // namespace

ThreadRecorder::ThreadRecorder(ProfileSession& of, std::uint64_t number)
    : session_number(number),
      options(of.options),
      gpu_timing(of.options.device_time ? GpuTiming::undecided : GpuTiming::off),
      session(&of),
      device_times(of.devices) {
  records.thread_id = ::gettid();
  records.pthread_id = static_cast<std::uint32_t>(::pthread_self());
  records.thread_name = name_of_this_thread();
}

bool ThreadRecorder::make_room() {
  if (room == 0) {
    room = session->reserve(next_request);
    next_request = std::min(2 * next_request, kMostRecordsPerRequest);
  }
  if (room == 0) {
    ++records.dropped;
    return false;
  }
  --room;
  return true;
}

std::uint32_t ThreadRecorder::region_in(std::uint32_t outer, std::string_view name) {
  std::vector<RegionNode>& nodes = records.region_nodes;
  if (const auto found = nodes[outer].inner.find(name); found != nodes[outer].inner.end()) return found->second;
  if (!make_room()) return outer;
  const auto number = static_cast<std::uint32_t>(nodes.size());
  nodes.push_back({std::string(name), outer});
  nodes[outer].inner.emplace(name, number);
  return number;
}

void ProfileSession::start(const std::shared_ptr<ProfileSession>& session) {
  const std::lock_guard lock(current().mutex);
  if (current().session != nullptr)
    throw_value_error(
        "a profiler runs in this process already, and there is one at a time: stop that one first, or let it go out of "
        "scope");
  current().session = session;
  session->start_time = std::chrono::steady_clock::now();
  running_session.store(++current().number, std::memory_order_release);
  session->observing_.emplace();
}

ThreadRecorder* ProfileSession::recorder() {
  const std::uint64_t running = running_session.load(std::memory_order_acquire);
  if (running == 0) return nullptr;
  std::shared_ptr<ThreadRecorder>& own = recorder_of_this_thread;
  if (own != nullptr && own->session_number == running) return own.get();
  const std::lock_guard lock(current().mutex);
  ProfileSession* const session = current().session.get();
  if (session == nullptr) return nullptr;
  own = session->recorders_.emplace_back(std::make_shared<ThreadRecorder>(*session, current().number));
  return own.get();
}

ThreadRecorder* ProfileSession::recorder(std::uint64_t session_number) {
  const bool is_running = running_session.load(std::memory_order_acquire) == session_number;
  ThreadRecorder* const recorder = is_running ? ProfileSession::recorder() : nullptr;
  return recorder != nullptr && recorder->session_number == session_number ? recorder : nullptr;
}

void ProfileSession::stop() {
  {
    const std::lock_guard lock(current().mutex);
    running_session.store(0, std::memory_order_release);
    observing_.reset();
    current().session.reset();
  }
  stop_time = std::chrono::steady_clock::now();
  std::exception_ptr failure;
  for (const auto& recorder : recorders_) {
    // The thread may go on for long, and keeps its recorder: what is left there must be small, and know no session.
    ProfileDeviceTimes device_times(devices);
    {
      const std::lock_guard lock(recorder->mutex);
      recorder->session = nullptr;
      std::swap(device_times, recorder->device_times);
      std::swap(threads.emplace_back(), recorder->records);
    }
    try {
      device_times.read(threads.back().calls, /*wait=*/true);
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  }
  recorders_.clear();
  try {
    timing.finish(threads);
  } catch (const std::exception&) {
    if (!failure) failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(failure);
}

std::size_t ProfileSession::reserve(std::size_t count) noexcept {
  const std::size_t before = reserved_.fetch_add(count, std::memory_order_relaxed);
  if (before < options.max_records) return std::min(count, options.max_records - before);
  reserved_.fetch_sub(count, std::memory_order_relaxed);
  return 0;
}

}  // namespace kiln
