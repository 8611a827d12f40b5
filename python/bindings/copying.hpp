#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.copy_async.
void bind_copying(py::module_& module);

}  // namespace kiln::python
