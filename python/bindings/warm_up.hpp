#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines warm_up.
void bind_warm_up(py::module_& module);

}  // namespace kiln::python
