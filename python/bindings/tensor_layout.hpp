#pragma once

#include <pybind11/pybind11.h>

#include <span>

#include "core/tensor.hpp"

namespace kiln::python {

namespace py = pybind11;

/// A kiln.TensorLayout for each: what there is to know of a tensor but its data.
py::list layouts_of(std::span<const TensorView> views);

/// Defines kiln.TensorLayout.
void bind_tensor_layout(py::module_& module);

}  // namespace kiln::python
