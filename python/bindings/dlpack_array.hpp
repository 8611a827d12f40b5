#pragma once

#include <optional>

#include "python/bindings/array.hpp"

namespace kiln::python {

/// Reads an array through its __dlpack__ method; `argument` owns the exchanged tensor. torch and CuPy are asked not to
/// wait, since calls run on their current stream; others make `stream` (unset: the default stream) wait for their work.
ArraySource read_dlpack(PyObject* object, ArrayKind kind, std::optional<void*> stream, Tensor& tensor);

}  // namespace kiln::python
