#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>

#include "core/errors.hpp"

namespace kiln {

/// A wait that was given up because somebody asked for it, by a stop token; what a front end's check throws passes
/// through as it is.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// How often those who wait for a compile look whether they still should.
inline constexpr std::chrono::milliseconds kInterruptInterval{50};

/// What a front end has every wait for a compile call now and then, on the thread that waits: it throws where the user
/// wants out (Ctrl-C). The library handles no signals itself. One check for the process, for good; null: none.
void set_interrupt_check(void (*check)()) noexcept;

/// While it lives, a stop request ends the waits of this thread with Interrupted. Within another, it takes its place.
class InterruptibleScope {
 public:
  explicit InterruptibleScope(std::stop_token stop) noexcept;
  ~InterruptibleScope();
  InterruptibleScope(const InterruptibleScope&) = delete;
  InterruptibleScope& operator=(const InterruptibleScope&) = delete;

 private:
  std::stop_token stop_;
  const std::stop_token* outer_;
};

/// Returns where this thread should go on waiting.
void check_interrupt();

/// Tells an interrupt from what else goes wrong: a front end's check throws what it likes.
class InterruptWitness {
 public:
  InterruptWitness() noexcept;
  /// Whether check_interrupt has thrown on this thread since this was made.
  bool has_seen_one() const noexcept;

 private:
  std::uint64_t before_;
};

/// Waits until `condition`, which `changed` announces under `lock`; looks for an interrupt meanwhile, without the lock.
template <typename ConditionVariable, typename Lock, typename Condition>
void wait_interruptibly(ConditionVariable& changed, Lock& lock, const Condition& condition) {
  while (!changed.wait_for(lock, kInterruptInterval, condition)) {
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
}

}  // namespace kiln
