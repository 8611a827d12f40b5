#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Defines the exceptions and has pybind11 translate Kiln's into them: UsageError by its kind to kiln.UsageValueError,
/// UsageTypeError and UsageNotImplementedError; UnknownOpError (with op) to one that is both a value and not
/// implemented; CompileError (with op, configuration, log), DeviceError (with call,
/// code, meaning), FileError and InternalError.
void bind_errors(py::module_& module);

/// Sets the Python error for the C++ exception being handled, for entry points that pybind11 does not wrap. Call it
/// in a catch block.
void set_python_error() noexcept;

}  // namespace kiln::python
