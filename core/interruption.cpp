#include "core/interruption.hpp"

#include <atomic>
#include <utility>

namespace kiln {
namespace {

constinit std::atomic<void (*)()> front_end_check = nullptr;
constinit thread_local const std::stop_token* current_stop = nullptr;
constinit thread_local std::uint64_t interrupts = 0;  ///< that check_interrupt has thrown

}  // namespace

void set_interrupt_check(void (*check)()) noexcept {
  front_end_check.store(check, std::memory_order_relaxed);
}

InterruptibleScope::InterruptibleScope(std::stop_token stop) noexcept
    : stop_(std::move(stop)), outer_(std::exchange(current_stop, &stop_)) {}

InterruptibleScope::~InterruptibleScope() {
  current_stop = outer_;
}

void check_interrupt() {
  ++interrupts;
  if (current_stop != nullptr && current_stop->stop_requested()) throw Interrupted("it was asked to stop");
  if (auto* const check = front_end_check.load(std::memory_order_relaxed)) check();
  --interrupts;
}

InterruptWitness::InterruptWitness() noexcept : before_(interrupts) {}

bool InterruptWitness::has_seen_one() const noexcept {
  return interrupts != before_;
}

}  // namespace kiln
