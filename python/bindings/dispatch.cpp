#include "python/bindings/dispatch.hpp"

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/bound_call.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/op_object.hpp"
#include "python/bindings/resolved_op.hpp"
#include "python/bindings/tensor_meta.hpp"
#include "registry/dispatch/dispatch.hpp"

namespace kiln::python {
namespace {

using Run = py::object (*)(const OpNames&, PyObject* const*, std::size_t, PyObject*);

/// The op comes first: its name, or a kiln.Op.
template <Run run>
PyObject* by_name(PyObject*, PyObject* const* arguments, Py_ssize_t num_positional, PyObject* keywords) {
  try {
    if (num_positional < 1) throw_type_error("the first argument is the op's name");
    const py::handle given(arguments[0]);
    const py::object op = is_op(given) ? py::reinterpret_borrow<py::object>(given) : op_object(given);
    return run(names_of(op), arguments + 1, static_cast<std::size_t>(num_positional - 1), keywords).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

std::vector<TensorMeta> infer(py::handle name, const py::args& tensors, const py::kwargs& attributes) {
  const py::object op = is_op(name) ? py::reinterpret_borrow<py::object>(name) : op_object(name);
  const BoundCall call(names_of(op).spec->name, tensors, attributes, /*metas_allowed=*/true);
  return validated_call(call.spec, call.inputs(), call.attributes, {.seen_on = Device::cpu()}).metas;
}

template <typename Function>
PyCFunction as_function(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef g_functions[] = {
    {"dispatch_gpu_op", as_function(by_name<call_op>), METH_FASTCALL | METH_KEYWORDS,
     "dispatch_gpu_op(name, /, *tensors, out=None, stream=None, config=None, tuning=None, overlap_previous=None, "
     "**attributes)\n--\n\n"
     "Run an op on the tensors' device.\n\n"
     "Parameters\n----------\n"
     "name : str\n    The op, as kiln.ops lists them.\n"
     "*tensors\n    The op's inputs: arrays of NumPy, torch, CuPy, JAX, kiln.Tensor, or of anything with __dlpack__ "
     "or\n"
     "    __cuda_array_interface__. None leaves an optional one out. Nothing is copied.\n"
     "out\n    The array that takes the result; a tuple where the op has several outputs.\n"
     "stream\n    A kiln.Stream, a CUstream as an integer, or a stream of torch, CuPy or anything with "
     "__cuda_stream__; by default\n"
     "    torch's or CuPy's current stream of the tensors' device, else the default stream.\n"
     "config : dict or str\n    Tunables, {'BLOCK_SIZE': 1024}; those left out keep their defaults.\n"
     "tuning : str\n    Where the config comes from when none is given: 'off', 'use', 'nearest', 'first_use'.\n"
     "overlap_previous : bool\n    Let the kernels start while the work before them on the stream still runs; they "
     "wait for its end\n    themselves. For GPUs of sm_90 or newer; elsewhere it changes nothing.\n"
     "**attributes\n    The op's attributes; inputs may be given by name too.\n\n"
     "Returns\n-------\n"
     "The result in the kind of array of the first tensor; a tuple where the op has several outputs. `out` itself "
     "when\n"
     "it is given, and the changed inputs themselves where the op changes its inputs.\n\n"
     "Raises\n------\n"
     "UsageError\n    (ValueError, TypeError or NotImplementedError) for arguments the op does not take.\n"
     "CompileError, DeviceError\n    When the kernel cannot be made or launched."},
    {"resolve", as_function(by_name<resolve_op>), METH_FASTCALL | METH_KEYWORDS,
     "resolve(name, /, *tensors, out=None, stream=None, config=None, tuning=None, overlap_previous=None, "
     "**attributes)\n--\n\n"
     "Compile and load what a call with these arguments needs, and return it bound: a kiln.ResolvedOp.\n\n"
     "Arguments are as dispatch_gpu_op's; nothing runs. `out`, where given, fixes the outputs' strides; dense "
     "otherwise."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void bind_dispatch(py::module_& module) {
  bind_tensor_meta(module);
  bind_op(module);
  bind_resolved_op(module);
  if (PyModule_AddFunctions(module.ptr(), g_functions) != 0) throw py::error_already_set();
  module.def("infer_outputs", &infer, py::arg("name"), py::pos_only(),
             "Shapes and dtypes of what a call makes, from arrays or kiln.TensorMeta; empty for an op that changes its "
             "inputs. Reads no data and needs no device.");
}

}  // namespace kiln::python
