#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines kiln.PinnedPool and PinnedPoolStatistics.
void bind_pinned_pool(py::module_& module);

}  // namespace kiln::python
