#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace kiln {

/// Calls back, on a thread of its own, when something takes longer than it may. It cannot end what hangs: a kernel that
/// never returns can only be left behind, by ending the process.
class Watchdog {
 public:
  /// What `on_overrun` throws waits for rethrow_failure: the thread that calls it has nobody who could catch it.
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

  /// Throws what the last call back threw, once. To be called where no watch is.
  void rethrow_failure();

 private:
  using Clock = std::chrono::steady_clock;
  void run(const std::stop_token& stop);

  std::function<void()> on_overrun_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Clock::time_point> deadline_;
  std::exception_ptr failure_;
  std::jthread thread_;  ///< last: it uses the others
};

}  // namespace kiln
