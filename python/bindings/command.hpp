#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// run_command: the `kiln` command in this process.
void bind_command(py::module_& module);

}  // namespace kiln::python
