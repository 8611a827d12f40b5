#pragma once

#include <pybind11/pybind11.h>

#include "core/tensor.hpp"
#include "ops/op_spec.hpp"

namespace kiln::python {

namespace py = pybind11;

/// A dense view of that dtype and shape without memory, enough for a spec to look at. Tensor{} for an absent one.
TensorView placeholder(const TensorMeta& meta, Device device = Device::cpu());

/// A tuple of ints; the inverse takes any sequence of them, or one. UsageError(value) for too many.
py::tuple to_python(const Dims& dims);
Dims dims_argument(py::handle shape);

/// Defines kiln.TensorMeta.
void bind_tensor_meta(py::module_& module);

}  // namespace kiln::python
