#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.swap_blocks.
void bind_block_swap(py::module_& module);

}  // namespace kiln::python
