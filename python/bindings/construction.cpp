#include "python/bindings/construction.hpp"

#include <unordered_map>

namespace kiln::python {
namespace {

/// By type; both live as long as the process.
std::unordered_map<PyTypeObject*, PyObject*>& makers() {
  static auto* made = new std::unordered_map<PyTypeObject*, PyObject*>;
  return *made;
}

PyObject* make_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  return PyObject_Call(makers().at(type), arguments, keywords);
}

int keep_as_made(PyObject*, PyObject*, PyObject*) {
  return 0;
}

PyObject* refuse_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError, "%s: Kiln makes its objects; it has no constructor", type->tp_name);
  return nullptr;
}

}  // namespace

void construct_with(py::handle type, const py::cpp_function& make) {
  auto* made = reinterpret_cast<PyTypeObject*>(type.ptr());
  makers()[made] = py::handle(make).inc_ref().ptr();
  made->tp_new = make_new;
  made->tp_init = keep_as_made;
  PyType_Modified(made);
}

void refuse_bare_objects(const py::module_& module) {
  const PyTypeObject* metaclass = py::detail::get_internals().default_metaclass;
  for (const auto& [name, value] : py::dict(module.attr("__dict__"))) {
    if (Py_TYPE(value.ptr()) != metaclass) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
    if (makers().contains(type)) continue;
    type->tp_new = refuse_new;
    PyType_Modified(type);
  }
}

}  // namespace kiln::python
