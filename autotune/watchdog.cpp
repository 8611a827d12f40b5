#include "autotune/watchdog.hpp"

#include <cmath>
#include <utility>

namespace kiln {

Watchdog::Watchdog(std::function<void()> on_overrun)
    : on_overrun_(std::move(on_overrun)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

Watchdog::~Watchdog() = default;

Watchdog::Watch::Watch(Watchdog& watchdog, double limit_s) : watchdog_(watchdog) {
  if (!std::isfinite(limit_s)) return;
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
    on_overrun_();
  }
}

}  // namespace kiln
