#include "autotune/compile_ahead.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/errors.hpp"
#include "core/interruption.hpp"

namespace kiln {

CompileAhead::CompileAhead(std::function<void(std::size_t candidate)> compile, int threads)
    : compile_(std::move(compile)) {
  if (threads < 1) throw_value_error(fmt::format("compile_threads={}; expected 1 or more", threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

CompileAhead::~CompileAhead() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void CompileAhead::want(std::span<const std::size_t> candidates) {
  {
    const std::lock_guard lock(mutex_);
    wanted_.clear();
    for (const std::size_t candidate : candidates)
      if (!states_.contains(candidate)) wanted_.push_back(candidate);
  }
  changed_.notify_all();
}

const CompileAhead::State* CompileAhead::find_done(std::size_t candidate) const {
  const auto found = states_.find(candidate);
  return found != states_.end() && found->second.is_done ? &found->second : nullptr;
}

bool CompileAhead::is_done(std::size_t candidate) const {
  const std::lock_guard lock(mutex_);
  return find_done(candidate) != nullptr;
}

bool CompileAhead::wait_for(std::size_t candidate, std::chrono::milliseconds longest, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, stop, longest, [&] { return find_done(candidate) != nullptr; })) return false;
  if (const std::exception_ptr failure = find_done(candidate)->failure) std::rethrow_exception(failure);
  return true;
}

std::optional<std::size_t> CompileAhead::wait_for_any(std::span<const std::size_t> candidates,
                                                      std::chrono::milliseconds longest, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  auto done = candidates.end();
  changed_.wait_for(lock, stop, longest, [&] {
    done =
        std::find_if(candidates.begin(), candidates.end(), [&](std::size_t candidate) { return find_done(candidate); });
    return done != candidates.end();
  });
  return done == candidates.end() ? std::nullopt : std::optional(*done);
}

bool CompileAhead::wait_for_all(std::chrono::milliseconds longest, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, stop, longest, [&] { return wanted_.empty() && running_ == 0; });
}

void CompileAhead::work(const std::stop_token& stop) {
  const InterruptibleScope scope(stop);
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !wanted_.empty(); }) && !stop.stop_requested()) {
    const std::size_t candidate = wanted_.front();
    wanted_.pop_front();
    states_[candidate];
    ++running_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      compile_(candidate);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    states_[candidate] = {true, failure};
    --running_;
    changed_.notify_all();
  }
}

}  // namespace kiln
