#include "python/bindings/array_making.hpp"

#include "python/bindings/array_type.hpp"
#include "python/bindings/dlpack_abi.hpp"
#include "python/bindings/numpy_array.hpp"
#include "python/bindings/tensor_object.hpp"

namespace kiln::python {

py::object to_python(const Tensor& tensor, ArrayKind kind, Stream stream) {
  const bool is_cuda = tensor.device().is_cuda();
  switch (kind) {
    case ArrayKind::numpy:
      return is_cuda ? make_tensor_object(tensor, stream) : to_numpy(tensor);
    case ArrayKind::torch: {
      if (const dlpack::ExchangeApi* api = torch_exchange_api()) {
        void* object = nullptr;
        if (api->to_object(dlpack::export_tensor<dlpack::ManagedVersioned>(tensor), &object) != 0)
          throw py::error_already_set();
        return py::reinterpret_steal<py::object>(static_cast<PyObject*>(object));
      }
      return py::module_::import("torch").attr("from_dlpack")(make_tensor_object(tensor, stream));
    }
    case ArrayKind::cupy:
      if (!is_cuda) break;
      return py::module_::import("cupy").attr("from_dlpack")(make_tensor_object(tensor, stream));
    case ArrayKind::jax:
      return py::module_::import("jax.dlpack").attr("from_dlpack")(make_tensor_object(tensor, stream));
    case ArrayKind::kiln:
    case ArrayKind::other:
      break;
  }
  return make_tensor_object(tensor, stream);
}

py::object to_python(const Tensor& tensor, ArrayKind kind) {
  return to_python(tensor, kind, Stream::default_of(tensor.device()));
}

}  // namespace kiln::python
