#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.Stream, kiln.Event, wait_stream, fork_join and stream_priority_range.
void bind_stream(py::module_& module);

}  // namespace kiln::python
