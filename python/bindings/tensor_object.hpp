#pragma once

#include <pybind11/pybind11.h>

#include "core/tensor.hpp"
#include "runtime/stream.hpp"

namespace kiln::python {

namespace py = pybind11;

/// What a kiln.Tensor holds.
struct TensorObject {
  Tensor tensor;
  Stream stream;  ///< where work on it was enqueued: who takes the tensor over waits for that
};

/// kiln.Tensor.
py::handle tensor_type();
py::object make_tensor_object(const Tensor& tensor, Stream stream);

/// Defines kiln.Tensor.
void bind_tensor(py::module_& module);

}  // namespace kiln::python
