#include "python/bindings/tensor_layout.hpp"

#include <fmt/format.h>

#include "ops/op_spec.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/tensor_meta.hpp"

namespace kiln::python {

py::list layouts_of(std::span<const TensorView> views) {
  py::list list;
  for (const TensorView& view : views) list.append(is_absent(view) ? py::object(py::none()) : py::cast(view));
  return list;
}

void bind_tensor_layout(py::module_& module) {
  py::class_<TensorView> type(module, "TensorLayout",
                              "Where a tensor lies and how, without a hold on its memory: dtype, shape, strides in "
                              "elements, device, address.",
                              py::is_final());
  type.attr("__module__") = "kiln";
  type.def_property_readonly("dtype", [](const TensorView& self) { return to_python(self.dtype); })
      .def_property_readonly("shape", [](const TensorView& self) { return to_python(self.shape); })
      .def_property_readonly(
          "strides", [](const TensorView& self) { return to_python(self.strides); }, "In elements, as torch has them.")
      .def_property_readonly("device", [](const TensorView& self) { return to_string(self.device); })
      .def_property_readonly(
          "data_ptr", [](const TensorView& self) { return reinterpret_cast<std::uintptr_t>(self.data); },
          "The address of the first element.")
      .def("__repr__", [](const TensorView& self) { return fmt::format("<kiln.TensorLayout {}>", describe(self)); });
}

}  // namespace kiln::python
