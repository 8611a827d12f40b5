#include "python/bindings/callback.hpp"

#include "python/bindings/attributes.hpp"
#include "python/bindings/tensor_meta.hpp"

namespace kiln::python {

py::list describe(const CallInputs& tensors) {
  py::list list;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    list.append(py::make_tuple(to_python(tensors[i].dtype), to_python(tensors[i].shape), to_python(tensors[i].strides),
                               to_string(tensors[i].device), tensors.find(i) == nullptr));
  return list;
}

py::tuple describe(const OpCall& call) {
  return py::make_tuple(describe(call.inputs), describe({call.outputs, {}}), to_python(call.attributes));
}

py::tuple describe_target(const OpCall& call, const Target& target) {
  return py::make_tuple(target.type == DeviceType::cpu ? "cpu" : "cuda", target.arch, call.processors);
}

}  // namespace kiln::python
