#include "python/bindings/torch_version.hpp"

namespace kiln::python {
namespace {

/// torch's way to say that tensors have changed. Found once and kept.
struct Increment {
  PyObject* function;  ///< None in a torch that has none
  bool takes_tuple;
};

const Increment& increment() {
  static const auto* const found = [] {
    // What increment_version calls in the end: without it in between 0.5 us instead of 0.8. Where it does not take a
    // tuple, or is not there any more, the public function serves.
    try {
      const py::object direct = py::module_::import("torch._C").attr("_increment_version");
      direct(py::tuple());
      return new Increment{py::object(direct).release().ptr(), true};
    } catch (const py::error_already_set&) {
      const py::module_ graph = py::module_::import("torch.autograd.graph");
      return new Increment{py::getattr(graph, "increment_version", py::none()).release().ptr(), false};
    }
  }();
  return *found;
}

bool is_inference(PyObject* tensor) {
  return py::handle(tensor).attr("is_inference")().cast<bool>();
}

}  // namespace

void increment_versions(std::span<PyObject* const> tensors) {
  const auto& [function, takes_tuple] = increment();
  if (function == Py_None) return;
  for (PyObject* tensor : tensors) {
    const py::object argument =
        takes_tuple ? py::make_tuple(py::handle(tensor)) : py::reinterpret_borrow<py::object>(tensor);
    PyObject* const done = PyObject_CallOneArg(function, argument.ptr());
    if (done != nullptr) {
      Py_DECREF(done);
      continue;
    }
    py::error_already_set error;
    if (!is_inference(tensor)) throw error;
  }
}

}  // namespace kiln::python
