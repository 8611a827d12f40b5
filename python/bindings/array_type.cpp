#include "python/bindings/array_type.hpp"

#include <string>
#include <unordered_map>

#include "python/bindings/tensor_object.hpp"

namespace kiln::python {
namespace {

std::string qualified_name(py::handle type) {
  return py::str(py::getattr(type, "__module__", py::str(""))).cast<std::string>() + "." +
         py::str(py::getattr(type, "__qualname__", py::str(""))).cast<std::string>();
}

bool has_attribute(py::handle object, const char* name) {
  return py::hasattr(object, name);
}

const dlpack::ExchangeApi* exchange_api(py::handle type) {
  const py::object capsule = py::getattr(type, "__dlpack_c_exchange_api__", py::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* header =
      static_cast<const dlpack::ExchangeApi::Header*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (header != nullptr && header->version.major != 1) header = header->previous;
  const auto* api = reinterpret_cast<const dlpack::ExchangeApi*>(header);
  return api != nullptr && api->borrow != nullptr ? api : nullptr;
}

ArrayType examine(PyTypeObject* type) {
  using Access = ArrayType::Access;
  ArrayType result;
  const py::handle handle(reinterpret_cast<PyObject*>(type));
  if (handle.is(tensor_type())) return {Access::kiln, ArrayKind::kiln};
  for (const py::handle base : py::reinterpret_borrow<py::tuple>(type->tp_mro)) {
    const std::string name = qualified_name(base);
    const std::string package = name.substr(0, name.find('.'));
    if (name.starts_with("numpy.ma.")) return {Access::masked, ArrayKind::numpy};
    if (name == "numpy.ndarray") return {Access::numpy, ArrayKind::numpy};
    if (name == "numpy.generic") return {Access::scalar, ArrayKind::numpy};
    if (name.starts_with("torch._subclasses.")) return {Access::fake, ArrayKind::torch};
    if (name == "torch.Tensor") result.kind = ArrayKind::torch;
    if (package == "cupy") result.kind = ArrayKind::cupy;
    if (package == "jax" || package == "jaxlib") result.kind = ArrayKind::jax;
  }
  if (result.kind == ArrayKind::torch) {
    const py::object descriptor = py::getattr(handle, "requires_grad", py::none());
    if (Py_TYPE(descriptor.ptr())->tp_descr_get != nullptr) result.requires_grad = descriptor.inc_ref().ptr();
    result.is_neg = py::getattr(handle, "is_neg").release().ptr();
  }
  result.exchange = exchange_api(handle);
  if (result.exchange != nullptr)
    result.access = Access::exchange;
  else if (result.kind == ArrayKind::cupy ||
           (has_attribute(handle, "__cuda_array_interface__") && !has_attribute(handle, "__dlpack__")))
    result.access = Access::cuda_interface;
  else if (has_attribute(handle, "__dlpack__"))
    result.access = Access::dlpack;
  else if (has_attribute(handle, "__array_interface__") ||
           (type->tp_as_buffer != nullptr && type->tp_as_buffer->bf_getbuffer != nullptr &&
            !PyType_IsSubtype(type, &PyBytes_Type) && !PyType_IsSubtype(type, &PyByteArray_Type)))
    result.access = Access::array_interface;
  return result;
}

}  // namespace

const ArrayType& array_type(PyTypeObject* type) {
  static PyTypeObject* last_type = nullptr;
  static const ArrayType* last = nullptr;
  if (type == last_type) return *last;
  static auto* types = new std::unordered_map<PyTypeObject*, ArrayType>;
  auto found = types->find(type);
  if (found == types->end()) {
    const ArrayType result = examine(type);
    Py_INCREF(type);  // its address stands for it from now on
    found = types->emplace(type, result).first;
  }
  last_type = type;
  last = &found->second;
  return *last;
}

const dlpack::ExchangeApi* torch_exchange_api() {
  static const dlpack::ExchangeApi* found = nullptr;
  if (found != nullptr) return found;
  const py::object modules = py::module_::import("sys").attr("modules");
  if (!modules.contains("torch")) return nullptr;
  const py::object type = py::getattr(modules["torch"], "Tensor", py::none());
  if (!PyType_Check(type.ptr())) return nullptr;
  found = array_type(reinterpret_cast<PyTypeObject*>(type.ptr())).exchange;
  return found;
}

}  // namespace kiln::python
