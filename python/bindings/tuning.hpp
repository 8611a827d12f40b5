#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// tune_op, and the process's tuning policy and log.
void bind_tuning(py::module_& module);

}  // namespace kiln::python
