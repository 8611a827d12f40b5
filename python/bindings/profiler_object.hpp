#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines Profiler, ProfileReport and its rows, and profile_region.
void bind_profiler(py::module_& module);

}  // namespace kiln::python
