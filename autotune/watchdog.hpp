#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace kiln {

/// Calls back, on a thread of its own, when something takes longer than it may. It cannot end what hangs: a kernel that
/// never returns can only be left behind, by ending the process.
class Watchdog {
 public:
  explicit Watchdog(std::function<void()> on_overrun);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From now until it is destroyed, a watch calls back once if that takes longer than `limit_s`. One at a time.
  class Watch {
   public:
    Watch(Watchdog& watchdog, double limit_s);
    /// Waits for a call back that is under way.
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  void run(const std::stop_token& stop);

  std::function<void()> on_overrun_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Clock::time_point> deadline_;
  std::jthread thread_;  ///< last: it uses the others
};

}  // namespace kiln
