#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.PackedGather.
void bind_packed_gather(py::module_& module);

}  // namespace kiln::python
