#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// inspect_call: what a call would run, as text or numbers.
void bind_inspection(py::module_& module);

}  // namespace kiln::python
