#pragma once

#include <pybind11/pybind11.h>

#include "python/bindings/call_arguments.hpp"

namespace kiln::python {

/// A kiln.ResolvedOp for the call.
py::object resolve_op(const OpNames& names, PyObject* const* arguments, std::size_t num_positional, PyObject* keywords);

/// Defines kiln.ResolvedOp, and what its report is made of.
void bind_resolved_op(py::module_& module);

}  // namespace kiln::python
