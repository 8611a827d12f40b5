#include "runtime/process_fork.hpp"

#include <pthread.h>

#include <atomic>

namespace kiln {
namespace detail {
constinit bool lost_workers = false;
constinit bool lost_cuda_driver = false;
}  // namespace detail

namespace {

constinit std::atomic<bool> used_workers = false;
constinit std::atomic<bool> used_cuda_driver = false;

void mark_losses() {
  if (used_workers.load(std::memory_order_relaxed)) detail::lost_workers = true;
  if (used_cuda_driver.load(std::memory_order_relaxed)) detail::lost_cuda_driver = true;
}

}  // namespace

void note_lost_in_fork(ForkLoss loss) noexcept {
  // Here and not when the library is loaded: a program that only imports Kiln gets no handler.
  [[maybe_unused]] static const int installed = pthread_atfork(nullptr, nullptr, mark_losses);
  (loss == ForkLoss::workers ? used_workers : used_cuda_driver).store(true, std::memory_order_relaxed);
}

}  // namespace kiln
