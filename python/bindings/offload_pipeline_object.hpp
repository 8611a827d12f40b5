#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.OffloadPipeline.
void bind_offload_pipeline(py::module_& module);

}  // namespace kiln::python
