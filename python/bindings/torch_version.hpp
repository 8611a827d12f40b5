#pragma once

#include <pybind11/pybind11.h>

#include <span>

namespace kiln::python {

namespace py = pybind11;

/// Counts a change of torch tensors that torch did not make itself, as its own ops in place do: a backward pass that
/// needs the old contents then raises rather than computes with the new ones. Tensors of inference mode, which have no
/// count, are passed over.
void increment_versions(std::span<PyObject* const> tensors);

}  // namespace kiln::python
