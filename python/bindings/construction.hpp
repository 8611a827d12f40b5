#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// Has objects of the type made, all at once, by `make`, a function of the arguments that returns one. With py::init a
/// mere T.__new__(T) would have no C++ object, and whatever used it would read memory that nobody wrote. The type must
/// be final.
void construct_with(py::handle type, const py::cpp_function& make);

/// Has __new__ of all other types of pybind11 in the module raise a TypeError. Call it when all are defined.
void refuse_bare_objects(const py::module_& module);

}  // namespace kiln::python
