#include "python/bindings/tensor_meta.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/construction.hpp"

namespace kiln::python {

TensorView placeholder(const TensorMeta& meta, Device device) {
  if (meta.absent) return {};
  return dense_view(nullptr, meta.dtype, meta.shape, device);
}

py::tuple to_python(const Dims& dims) {
  py::tuple tuple(dims.size());
  for (int axis = 0; axis < dims.size(); ++axis) tuple[static_cast<std::size_t>(axis)] = dims[axis];
  return tuple;
}

Dims dims_argument(py::handle shape) {
  const auto extent = [](py::handle value) { return integer_argument(value, "shape"); };
  Dims dims;
  if (PyIndex_Check(shape.ptr())) {
    dims.push_back(extent(shape));
    return dims;
  }
  if (!py::isinstance<py::iterable>(shape))
    throw_type_error(
        fmt::format("shape: expected an integer or a tuple of integers, got {}", Py_TYPE(shape.ptr())->tp_name));
  for (const py::handle item : shape) dims.push_back(extent(item));
  return dims;
}

void bind_tensor_meta(py::module_& module) {
  py::class_<TensorMeta> type(module, "TensorMeta", "A tensor's dtype and shape, without data.", py::is_final());
  type.attr("__module__") = "kiln";
  construct_with(type,
                 py::cpp_function(
                     [](py::handle dtype, py::handle shape, bool absent) {
                       TensorMeta meta{dtype_argument(dtype), dims_argument(shape), absent};
                       for (const std::int64_t extent : meta.shape)
                         if (extent < 0)
                           throw_value_error(fmt::format("shape: {} has a negative extent", to_string(meta.shape)));
                       return meta;
                     },
                     py::name("TensorMeta"), py::arg("dtype"), py::arg("shape"), py::arg("absent") = false));
  type.def_readonly("dtype", &TensorMeta::dtype)
      .def_property_readonly("shape", [](const TensorMeta& self) { return to_python(self.shape); })
      .def_readonly("absent", &TensorMeta::absent, "An optional input that is left out while a later one is given.")
      .def("__eq__",
           [](const TensorMeta& self, py::handle other) {
             if (!py::isinstance<TensorMeta>(other)) return false;
             const auto& meta = other.cast<const TensorMeta&>();
             return self.dtype == meta.dtype && self.shape == meta.shape && self.absent == meta.absent;
           })
      .def("__hash__",
           [](const TensorMeta& self) {
             return py::hash(py::make_tuple(static_cast<int>(self.dtype), to_python(self.shape)));
           })
      .def("__repr__", [](const TensorMeta& self) {
        return self.absent ? std::string("TensorMeta(absent)")
                           : fmt::format("TensorMeta({}, {})", name(self.dtype), to_string(self.shape));
      });
}

}  // namespace kiln::python
