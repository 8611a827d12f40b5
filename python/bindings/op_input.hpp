#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::python {

namespace py = pybind11;

std::vector<DType> dtypes_from(py::handle list);

/// The input at `place` of an op from the dict that kiln/op_input.py makes of it.
InputSpec input_from(const py::dict& given, std::size_t place);

}  // namespace kiln::python
