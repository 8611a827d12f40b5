#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.OpSpec and what it is made of.
void bind_op_spec(py::module_& module);

}  // namespace kiln::python
