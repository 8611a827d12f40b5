#pragma once

#include <pybind11/pybind11.h>

#include "core/tensor.hpp"

namespace kiln::python {

namespace py = pybind11;

/// The library whose array object a tensor came in, and results go out in.
enum class ArrayKind { numpy, torch, cupy, jax, kiln, other };

/// What a Python array is beside its memory.
struct ArraySource {
  ArrayKind kind = ArrayKind::other;
  bool read_only = false;
};

/// A Python array seen as a tensor, without a copy.
struct ArrayArgument : ArraySource {
  /// Borrows the memory: the Python object must outlive it, as a call's arguments do. It has an owner only where the
  /// array's library made something for it (a DLPack capsule). None is Tensor{}, an optional input left out.
  Tensor tensor;
};

}  // namespace kiln::python
