#include "python/bindings/op_object.hpp"

#include <pybind11/stl.h>
#include <structmember.h>

#include <cstddef>
#include <string>

#include "core/errors.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/results.hpp"
#include "python/bindings/vectorcall_type.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"

namespace kiln::python {
namespace {

/// kiln.Op. Made by hand: a type of pybind11's takes a tuple and a dict for each call.
struct OpObject {
  PyObject base;
  vectorcallfunc vectorcall;
  OpNames* names;
  PyObject* name;
  PyObject* doc;        ///< made when asked for
  PyObject* signature;  ///< likewise
  PyObject* weak_references;
};

PyTypeObject* g_type = nullptr;  // both live as long as the process
PyObject* g_ops = nullptr;       // name -> kiln.Op

OpObject* as_op(PyObject* self) {
  return reinterpret_cast<OpObject*>(self);
}

PyObject* vectorcall(PyObject* self, PyObject* const* arguments, std::size_t flags, PyObject* keywords) {
  try {
    return call_op(*as_op(self)->names, arguments, static_cast<std::size_t>(PyVectorcall_NARGS(flags)), keywords)
        .release()
        .ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// What Python makes of the spec: kiln.op_documentation's functions.
PyObject* documented(PyObject*& cached, PyObject* self, const char* function) {
  if (cached == nullptr) {
    try {
      cached = py::module_::import("kiln.op_documentation").attr(function)(py::handle(self)).release().ptr();
    } catch (...) {
      set_python_error();
      return nullptr;
    }
  }
  Py_INCREF(cached);
  return cached;
}

/// __signature__ and __module__ of an instance are not those of the class.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  const Py_ssize_t length = PyUnicode_GetLength(name);
  if (length == 13 && PyUnicode_CompareWithASCIIString(name, "__signature__") == 0)
    return documented(as_op(self)->signature, self, "signature");
  if (length == 10 && PyUnicode_CompareWithASCIIString(name, "__module__") == 0)
    return PyUnicode_FromString("kiln.ops");
  return PyObject_GenericGetAttr(self, name);
}

constexpr const char* kTypeDoc = "A registered op, called with tensors and attributes; kiln.ops has them all.";

/// What the class has as __doc__: its own text for itself, an op's for an op. inspect.getdoc asks no __getattribute__.
PyObject* get_doc(PyObject*, PyObject* op, PyObject*) {
  return op == nullptr ? PyUnicode_FromString(kTypeDoc) : documented(as_op(op)->doc, op, "docstring");
}

void define_doc(PyTypeObject* type) {
  PyType_Slot slots[] = {{Py_tp_descr_get, reinterpret_cast<void*>(get_doc)}, {0, nullptr}};
  PyType_Spec spec{"kiln.OpDoc", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
  const auto descriptor_type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!descriptor_type || PyDict_SetItemString(type->tp_dict, "__doc__", descriptor_type().ptr()) != 0)
    throw py::error_already_set();
  PyType_Modified(type);
}

PyObject* get_name(PyObject* self, void*) {
  Py_INCREF(as_op(self)->name);
  return as_op(self)->name;
}

PyObject* get_spec(PyObject* self, void*) {
  try {
    return py::cast(as_op(self)->names->spec, py::return_value_policy::reference).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("<kiln.Op %U>", as_op(self)->name);
}

PyObject* reduce(PyObject* self, PyObject*) {
  try {
    return py::make_tuple(py::module_::import("kiln").attr("op"), py::make_tuple(py::handle(as_op(self)->name)))
        .release()
        .ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// An op in a class is a static function, and what pydoc shows is then the op rather than its class.
PyObject* get_descriptor(PyObject* self, PyObject*, PyObject*) {
  Py_INCREF(self);
  return self;
}

void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (as_op(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  Py_XDECREF(as_op(self)->name);
  Py_XDECREF(as_op(self)->doc);
  Py_XDECREF(as_op(self)->signature);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef g_methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyGetSetDef g_properties[] = {
    {"name", get_name, nullptr, "The op's name in the registry.", nullptr},
    {"__name__", get_name, nullptr, nullptr, nullptr},
    {"__qualname__", get_name, nullptr, nullptr, nullptr},
    {"spec", get_spec, nullptr, "kiln.OpSpec: what the op takes, makes and promises.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMemberDef g_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(OpObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

py::object op_object(py::handle name) {
  if (!PyUnicode_Check(name.ptr()))
    throw_type_error(std::string("the op's name must be a string, got ").append(Py_TYPE(name.ptr())->tp_name));
  if (PyObject* found = PyDict_GetItemWithError(g_ops, name.ptr())) return py::reinterpret_borrow<py::object>(found);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  const OpSpec& spec = Registry::process().get(name.cast<std::string>());
  auto* object = reinterpret_cast<OpObject*>(g_type->tp_alloc(g_type, 0));
  if (object == nullptr) throw py::error_already_set();
  auto op = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(object));
  object->vectorcall = vectorcall;
  object->names = new OpNames(spec);
  object->name = py::str(spec.name).release().ptr();
  if (PyDict_SetItem(g_ops, object->name, op.ptr()) != 0) throw py::error_already_set();
  return op;
}

bool is_op(py::handle object) {
  return Py_TYPE(object.ptr()) == g_type;
}

const OpNames& names_of(py::handle op) {
  return *as_op(op.ptr())->names;
}

py::object call_op(const OpNames& names, PyObject* const* arguments, std::size_t num_positional, PyObject* keywords) {
  const CallArguments call(names, arguments, num_positional, keywords);
  Results results(call);
  const std::function<const Tensor&(const TensorMeta&, Stream)> allocate =
      [&results](const TensorMeta& meta, Stream stream) -> const Tensor& { return results.allocate(meta, stream); };
  {
    GilReleasedLater gil;
    const std::function<void()> release = [&gil] { gil.release(); };
    DispatchOptions options = call.options();
    options.allocate = &allocate;
    options.before_work = &release;
    if (call.device().is_cuda()) gil.release();  // its driver may wait for others, who wait for the GIL
    run_gpu_op(names.spec->name, call.inputs(), call.attributes(), options);
    call.wait_if_borrowed();
  }
  call.note_launch();
  return !call.outputs().empty() || names.spec->outputs.empty() ? call.given_results() : results.to_python();
}

void bind_op(py::module_& module) {
  PyType_Slot slots[] = {
      {Py_tp_call, slot(PyVectorcall_Call)},
      {Py_tp_dealloc, slot(deallocate)},
      {Py_tp_repr, slot(represent)},
      {Py_tp_getattro, slot(get_attribute)},
      {Py_tp_descr_get, slot(get_descriptor)},
      {Py_tp_methods, g_methods},
      {Py_tp_getset, g_properties},
      {Py_tp_members, g_members},
      {0, nullptr},
  };
  g_type = make_vectorcall_type("kiln.Op", sizeof(OpObject), slots);
  define_doc(g_type);
  g_ops = PyDict_New();
  if (g_ops == nullptr) throw py::error_already_set();
  module.attr("Op") = py::handle(reinterpret_cast<PyObject*>(g_type));
  module.def("op", &op_object, py::arg("name"),
             "The op of that name. ValueError with the nearest names for an unknown one.");
  module.def("op_names", [] { return Registry::process().names(); }, "The names of all registered ops, sorted.");
}

}  // namespace kiln::python
