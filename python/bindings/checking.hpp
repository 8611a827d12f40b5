#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// What kiln/checking.py compares results with.
void bind_checking(py::module_& module);

}  // namespace kiln::python
