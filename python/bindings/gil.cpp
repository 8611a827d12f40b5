#include "python/bindings/gil.hpp"

#include <unistd.h>

namespace kiln::python {
namespace {

bool interpreter_ends() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

[[noreturn]] void sleep_until_process_ends() noexcept {
  while (true) pause();
}

}  // namespace

GilReleased::~GilReleased() {
  if (interpreter_ends()) sleep_until_process_ends();
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {  // the unwinding of pthread_exit
    sleep_until_process_ends();
  }
}

GilAcquired::GilAcquired() noexcept {
  if (interpreter_ends() && PyGILState_Check() == 0) sleep_until_process_ends();
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {  // as above
    sleep_until_process_ends();
  }
}

bool may_release_gil() noexcept {
  return !interpreter_ends() && PyGILState_Check() != 0;
}

std::shared_ptr<void> share(py::object object) {
  return std::shared_ptr<void>(object.release().ptr(), [](void* owned) {
    if (interpreter_ends()) return;
    const GilAcquired gil;
    Py_DECREF(static_cast<PyObject*>(owned));
  });
}

}  // namespace kiln::python
