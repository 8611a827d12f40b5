#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// devices, synchronize, empty, to_device.
void bind_device(py::module_& module);

}  // namespace kiln::python
