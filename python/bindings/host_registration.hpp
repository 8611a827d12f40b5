#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.HostRegistration and register_host_memory.
void bind_host_registration(py::module_& module);

}  // namespace kiln::python
