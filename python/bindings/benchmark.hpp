#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Timing of ops, of their references and of Python callables side by side.
void bind_benchmark(py::module_& module);

}  // namespace kiln::python
