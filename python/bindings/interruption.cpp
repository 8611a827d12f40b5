#include "python/bindings/interruption.hpp"

#include <pybind11/pybind11.h>

#include "core/interruption.hpp"
#include "python/bindings/gil.hpp"

namespace kiln::python {

void install_interrupt_check() {
  set_interrupt_check([] {
    const GilAcquired gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
}

}  // namespace kiln::python
