#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// dispatch_gpu_op, resolve, infer_outputs, Op, ResolvedOp, TensorMeta.
void bind_dispatch(py::module_& module);

}  // namespace kiln::python
