#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.Graph, GraphCall, GraphCapture, capture and warm_up.
void bind_graph(py::module_& module);

}  // namespace kiln::python
