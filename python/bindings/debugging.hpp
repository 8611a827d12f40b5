#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines debug_op with its report, and measured_peak.
void bind_debugging(py::module_& module);

}  // namespace kiln::python
