#pragma once

#include <pybind11/pybind11.h>

#include "core/tensor.hpp"
#include "python/bindings/array.hpp"
#include "runtime/stream.hpp"

namespace kiln::python {

/// An array object of that library over the tensor's memory, which lives as long as the object; no copy. Kinds whose
/// library cannot hold memory of the tensor's device (NumPy and a GPU) and `other` give a kiln.Tensor.
py::object to_python(const Tensor& tensor, ArrayKind kind);

/// to_python for memory that work on `stream` may still write.
py::object to_python(const Tensor& tensor, ArrayKind kind, Stream stream);

}  // namespace kiln::python
