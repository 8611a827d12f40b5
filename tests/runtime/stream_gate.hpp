#pragma once

#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "runtime/backend.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// Holds back what is enqueued on a CUDA stream after it, until it is opened. One gate at a time: the driver may call
/// host functions from one thread.
class StreamGate {
 public:
  explicit StreamGate(Stream stream) : stream_(stream) {
    using LaunchHostFunction = int (*)(void* stream, void (*function)(void*), void* data);
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto launch = reinterpret_cast<LaunchHostFunction>(dlsym(library, "cuLaunchHostFunc"));
    const CurrentDevice current(stream.device);
    if (launch == nullptr || launch(stream.handle, &wait, this) != 0) throw std::runtime_error("no gate was enqueued");
  }
  ~StreamGate() {
    open();
    synchronize(stream_);
  }
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }

 private:
  /// Gives up after a while, so that a test which waits for what the gate holds back fails rather than hangs.
  static void wait(void* data) {
    auto* const gate = static_cast<StreamGate*>(data);
    std::unique_lock lock(gate->mutex_);
    gate->opened_.wait_for(lock, std::chrono::seconds(5), [gate] { return gate->is_open_; });
  }

  Stream stream_;
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

/// Whether `condition` came true within two seconds.
inline bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

}  // namespace kiln
