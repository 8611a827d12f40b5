#include "python/bindings/callback.hpp"

#include "python/bindings/attributes.hpp"
#include "python/bindings/tensor_meta.hpp"

namespace kiln::python {

py::list describe(std::span<const TensorView> tensors) {
  py::list list;
  for (const TensorView& view : tensors)
    list.append(py::make_tuple(to_python(view.dtype), to_python(view.shape), to_python(view.strides),
                               to_string(view.device), is_absent(view)));
  return list;
}

py::tuple describe(const OpCall& call) {
  return py::make_tuple(describe(call.inputs), describe(call.outputs), to_python(call.attributes));
}

py::str target_name(const Target& target) {
  return target.type == DeviceType::cpu ? "cpu" : "cuda";
}

}  // namespace kiln::python
