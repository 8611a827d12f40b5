#pragma once

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "core/errors.hpp"

namespace kiln::python {

/// A value of which one thread at a time may make use, and no use within another. A lock that is waited for was the
/// alternative: a callback that uses the value it is called by would wait for itself.
template <typename T>
class OneUser {
 public:
  template <typename... Arguments>
  explicit OneUser(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}

  /// Calls `use` with the value. UsageError(value), naming the Python type `name`, while another use is under way.
  template <typename Use>
  void use(const char* name, const Use& use) {
    if (is_used_.exchange(true, std::memory_order_acquire))
      throw_value_error(fmt::format(
          "this kiln.{} is at work in another thread or in a callback of its own; give each thread one", name));
    const Release release{is_used_};
    use(value_);
  }

 private:
  struct Release {
    std::atomic<bool>& is_used;
    ~Release() { is_used.store(false, std::memory_order_release); }
  };
  T value_;
  std::atomic<bool> is_used_{false};
};

}  // namespace kiln::python
