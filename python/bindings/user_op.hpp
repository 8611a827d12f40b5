#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// What kiln/kernel.py and kiln/user_op.py build kiln.Kernel and kiln.register_op on: kernel files read and checked,
/// and ops registered from a dict whose functions are Python's. Such functions are called with the GIL, from whichever
/// thread plans, tunes or checks a call; what they raise comes out of that call as it is.
void bind_user_op(py::module_& module);

}  // namespace kiln::python
