#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

namespace kiln {

/// Compiles candidates on threads of its own before they are needed. Each is compiled once.
class CompileAhead {
 public:
  /// `compile` is called on several threads at once; what it throws reaches wait_for. UsageError(value) for fewer than
  /// one thread.
  CompileAhead(std::function<void(std::size_t candidate)> compile, int threads);
  /// Interrupts what has begun (core/interruption.hpp) and waits for that; the rest is not compiled.
  ~CompileAhead();
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;

  /// These next, in this order, in place of what was wanted before and has not begun.
  void want(std::span<const std::size_t> candidates);
  /// Whether it is compiled, or failed to.
  bool is_done(std::size_t candidate) const;
  /// Returns once `candidate`, which must be wanted, is compiled: true; or at a stop request, or after `longest`:
  /// false. Throws what its compilation threw.
  bool wait_for(std::size_t candidate, std::chrono::milliseconds longest, const std::stop_token& stop);
  /// The first of `candidates`, which must be wanted, that is compiled or failed to, once there is one; nothing at a
  /// stop request, or after `longest`. Throws nothing.
  std::optional<std::size_t> wait_for_any(std::span<const std::size_t> candidates, std::chrono::milliseconds longest,
                                          const std::stop_token& stop);
  /// As wait_for, once everything wanted is compiled and no thread works. Throws nothing.
  bool wait_for_all(std::chrono::milliseconds longest, const std::stop_token& stop);

 private:
  struct State {
    bool is_done = false;
    std::exception_ptr failure;
  };
  const State* find_done(std::size_t candidate) const;
  void work(const std::stop_token& stop);

  std::function<void(std::size_t)> compile_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::size_t> wanted_;
  std::map<std::size_t, State> states_;  ///< of those that have begun
  std::size_t running_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace kiln
