#pragma once

#include <pybind11/numpy.h>

#include "core/dtype.hpp"
#include "core/tensor.hpp"
#include "python/bindings/array.hpp"

namespace kiln::python {

/// A numpy.ndarray as a view, in `tensor`, which is a new one. UsageError: type for a dtype Kiln does not have, value
/// for strides or an address that are not multiples of the itemsize.
ArraySource read_numpy(PyObject* array, Tensor& tensor);
/// UsageError(type), saying what is wrong, for byte-swapped, structured, object, complex and other dtypes.
DType from_numpy_dtype(py::handle dtype);
/// ml_dtypes' for bf16 and fp8. UsageError(not_implemented) when ml_dtypes is not installed.
py::dtype to_numpy_dtype(DType dtype);
/// An array over the CPU tensor's memory, which it keeps alive.
py::object to_numpy(const Tensor& tensor);
/// numpy.empty: a dense array that NumPy allocates.
py::object numpy_empty(DType dtype, const Dims& shape);

}  // namespace kiln::python
