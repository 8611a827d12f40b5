#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.MemoryUsage and memory_usage.
void bind_memory_usage(py::module_& module);

}  // namespace kiln::python
