#pragma once

#include "python/bindings/array.hpp"

namespace kiln::python {

/// Reads an array through __cuda_array_interface__, version 2 or 3. An array of a library other than CuPy that names a
/// stream is waited for.
ArraySource read_cuda_interface(PyObject* object, ArrayKind kind, Tensor& tensor);
/// The property itself, for a tensor on a GPU.
py::dict cuda_interface_of(const TensorView& view, bool read_only);
/// "<f4". UsageError(not_implemented) for what NumPy cannot spell.
std::string typestr_of(DType dtype);

}  // namespace kiln::python
