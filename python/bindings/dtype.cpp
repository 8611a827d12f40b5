#include <fmt/format.h>
#include <pybind11/native_enum.h>

#include <string>

#include "core/errors.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/numpy_array.hpp"

namespace kiln::python {
namespace {

PyObject* g_dtype_class = nullptr;  // lives as long as the process

/// Only an imported NumPy can have made one.
bool is_numpy_dtype(py::handle object) {
  return py::hasattr(object, "newbyteorder") && py::module_::import("sys").attr("modules").contains("numpy") &&
         py::isinstance<py::dtype>(object);
}

bool is_torch_dtype(py::handle object) {
  return std::string_view(Py_TYPE(object.ptr())->tp_name) == "torch.dtype";
}

}  // namespace

DType dtype_argument(py::handle object) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == g_dtype_class) return object.cast<DType>();
  if (py::isinstance<py::str>(object)) return parse_dtype(object.cast<std::string>());
  if (is_torch_dtype(object)) {
    const auto text = py::str(object).cast<std::string>();  // "torch.float32"
    if (const auto dtype = find_dtype(text.substr(text.find('.') + 1))) return *dtype;
    throw_type_error(fmt::format("{} is none of Kiln's dtypes", text));
  }
  if (PyType_Check(object.ptr())) {
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::f64;
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::i64;
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::bool_;
    // numpy.float32 and jax.numpy's and ml_dtypes' scalar types
    if (py::hasattr(object, "dtype") || py::hasattr(object, "__array_interface__") ||
        py::hasattr(object, "newbyteorder"))
      return from_numpy_dtype(py::module_::import("numpy").attr("dtype")(object));
  }
  if (is_numpy_dtype(object)) return from_numpy_dtype(object);
  if (py::hasattr(object, "dtype") && !py::hasattr(object, "shape"))  // jax.numpy.float32
    return from_numpy_dtype(py::module_::import("numpy").attr("dtype")(object.attr("dtype")));
  throw_type_error(fmt::format(
      "expected a dtype (kiln.DType, a name like 'float32', or a dtype of NumPy, torch or ml_dtypes), got {}",
      Py_TYPE(object.ptr())->tp_name));
}

py::object to_python(DType dtype) {
  return py::cast(dtype);
}

void bind_dtype(py::module_& module) {
  py::native_enum<DType> dtypes(module, "DType", "enum.Enum",
                                "Element types. Wherever Kiln takes a dtype, a name ('f32', 'float32') and dtypes of "
                                "NumPy, torch and ml_dtypes do as well.");
  for (const DType dtype : kAllDTypes) dtypes.value(std::string(name(dtype)).c_str(), dtype);
  dtypes.finalize();
  const py::object type = module.attr("DType");
  g_dtype_class = type.inc_ref().ptr();
  const py::object property = py::module_::import("builtins").attr("property");
  type.attr("__module__") = "kiln";
  type.attr("itemsize") =
      property(py::cpp_function([](DType dtype) { return itemsize_bytes(dtype); }, "Bytes of an element."));
  type.attr("is_floating") =
      property(py::cpp_function([](DType dtype) { return is_floating(dtype); }, "Whether it holds fractions."));
  type.attr("numpy") = property(py::cpp_function([](DType dtype) { return to_numpy_dtype(dtype); },
                                                 "The numpy.dtype; of ml_dtypes for bf16 and fp8."));
  // DType("float32"), DType(numpy.float32), DType(torch.float32)
  type.attr("_missing_") = py::module_::import("builtins").attr("staticmethod")(py::cpp_function([](py::handle value) {
    return dtype_argument(value);
  }));
  type.attr("__str__") =
      py::cpp_function([](DType dtype) { return std::string(name(dtype)); }, py::name("__str__"), py::is_method(type));
}

}  // namespace kiln::python
