#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

#include "python/bindings/call_arguments.hpp"

namespace kiln::python {

/// The kiln.Op of a registered op, made once. UsageError(value) naming the nearest names for an unknown one.
py::object op_object(py::handle name);
/// The names behind a kiln.Op.
const OpNames& names_of(py::handle op);
bool is_op(py::handle object);

/// Defines kiln.Op.
void bind_op(py::module_& module);

/// Runs the call. The GIL is released while it plans, compiles, tunes and launches.
py::object call_op(const OpNames& names, PyObject* const* arguments, std::size_t num_positional, PyObject* keywords);

}  // namespace kiln::python
