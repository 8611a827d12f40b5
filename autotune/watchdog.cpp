#include "autotune/watchdog.hpp"

#include <utility>

namespace kiln {
namespace {

/// Years: beyond that there is no limit. The clock's nanoseconds overflow at a few centuries.
constexpr double kForeverS = 1e9;

}  // namespace

Watchdog::Watchdog(std::function<void()> on_overrun)
    : on_overrun_(std::move(on_overrun)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

Watchdog::~Watchdog() = default;

Watchdog::Watch::Watch(Watchdog& watchdog, double limit_s) : watchdog_(watchdog) {
  if (!(limit_s < kForeverS)) return;
  {
    const std::lock_guard lock(watchdog_.mutex_);
    watchdog_.deadline_ =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  }
  watchdog_.changed_.notify_all();
}

Watchdog::Watch::~Watch() {
  {
    const std::lock_guard lock(watchdog_.mutex_);
    watchdog_.deadline_.reset();
  }
  watchdog_.changed_.notify_all();
}

void Watchdog::rethrow_failure() {
  const std::lock_guard lock(mutex_);
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

void Watchdog::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!deadline_) {
      changed_.wait(lock, stop, [&] { return deadline_.has_value(); });
      continue;
    }
    const Clock::time_point deadline = *deadline_;
    const bool is_over = changed_.wait_until(lock, stop, deadline, [&] { return deadline_ != deadline; });
    if (is_over || stop.stop_requested()) continue;
    // Under the lock: the watch cannot end before the call back has.
    deadline_.reset();
    try {
      on_overrun_();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
}

}  // namespace kiln
