#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines measured_peak, measured_matmul_peak and what they return.
void bind_measured_peak(py::module_& module);

}  // namespace kiln::python
