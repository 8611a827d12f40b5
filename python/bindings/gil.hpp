#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <utility>

namespace kiln::python {

namespace py = pybind11;

/// Lets other Python threads run while it lives; cheaper than pybind11's, for the path of every call.
///
/// Python ends a thread that asks for the GIL while the interpreter goes, by unwinding its stack, which C++ frames do
/// not survive; such a thread sleeps until the process is gone instead. So it does in GilAcquired.
class GilReleased {
 public:
  GilReleased() noexcept : state_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// GilReleased from the moment on that `release` is called, which may be called again.
class GilReleasedLater {
 public:
  void release() noexcept {
    if (!released_) released_.emplace();
  }

 private:
  std::optional<GilReleased> released_;
};

/// Holds the GIL while it lives, on any thread.
class GilAcquired {
 public:
  GilAcquired() noexcept;
  ~GilAcquired() { PyGILState_Release(state_); }
  GilAcquired(const GilAcquired&) = delete;
  GilAcquired& operator=(const GilAcquired&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Whether this thread holds the GIL and gets it back after letting go of it, which it does not while the interpreter
/// ends. For destructors, which run at any time and anywhere.
bool may_release_gil() noexcept;

/// Destroys `value` without the GIL where may_release_gil(): what waits for a device holds up no other thread.
template <typename T>
void destroy_without_gil(T value) noexcept {
  std::optional<GilReleased> released;
  if (may_release_gil()) released.emplace();
  const T destroyed = std::move(value);
}

/// Shared ownership of `value`, which is destroyed by destroy_without_gil.
template <typename T>
std::shared_ptr<void> own_without_gil(T value) {
  return std::shared_ptr<void>(new T(std::move(value)),
                               [](void* owned) { destroy_without_gil(std::unique_ptr<T>(static_cast<T*>(owned))); });
}

/// Shared ownership of a Python object, for C++ that may let go without the GIL and on any thread. After the
/// interpreter's end the object is left alone.
std::shared_ptr<void> share(py::object object);

}  // namespace kiln::python
