#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// A function as PyType_Slot takes it.
template <typename Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

/// A type made by hand whose objects are called by vectorcall (its members name the offset), that Python code can
/// neither make objects of nor change. It lives as long as the process.
inline PyTypeObject* make_vectorcall_type(const char* name, std::size_t object_bytes, PyType_Slot* slots) {
  PyType_Spec spec{
      name, static_cast<int>(object_bytes), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
      slots};
  auto* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw py::error_already_set();
  return type;
}

}  // namespace kiln::python
