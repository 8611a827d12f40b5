#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

#include "core/tensor.hpp"

namespace kiln::python {

namespace py = pybind11;

/// The library whose array object a tensor came in, and results go out in.
enum class ArrayKind { numpy, torch, cupy, jax, kiln, other };

/// A Python array seen as a tensor, without a copy.
struct ArrayArgument {
  /// Borrows the memory: the Python object must outlive it, as a call's arguments do. It has an owner only where the
  /// array's library made something for it (a DLPack capsule). None is Tensor{}, an optional input left out.
  Tensor tensor;
  ArrayKind kind = ArrayKind::other;
  bool read_only = false;
};

/// UsageError(type) naming the argument and what to give instead, for lists, Python numbers, dtypes Kiln does not have,
/// memory of other devices, torch tensors that autograd watches. Needs the GIL.
ArrayArgument array_argument(py::handle object, std::string_view argument_name);

/// An array object of that library over the tensor's memory, which lives as long as the object; no copy. Kinds whose
/// library cannot hold memory of the tensor's device (NumPy and a GPU) and `other` give a kiln.Tensor.
py::object to_python(const Tensor& tensor, ArrayKind kind);

/// Defines kiln.Tensor.
void bind_array(py::module_& module);

}  // namespace kiln::python
