#include "python/bindings/dlpack_array.hpp"

#include <fmt/format.h>

#include <memory>

#include "core/errors.hpp"
#include "python/bindings/dlpack_abi.hpp"

namespace kiln::python {
namespace {

constexpr int kLegacyDefaultStream = 1;  // the array API's number for it
constexpr int kDoNotWait = -1;

py::object call_dlpack(py::handle object, const py::dict& arguments) {
  const py::object method = object.attr("__dlpack__");
  py::dict versioned(**arguments);
  versioned["max_version"] = py::make_tuple(1, 0);
  try {
    return method(**versioned);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // from before versions
  }
  return method(**arguments);
}

template <typename M>
Tensor take_over(py::handle capsule, const char* name, const char* used_name) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (managed == nullptr) throw py::error_already_set();
  if constexpr (requires { managed->version; })
    if (managed->version.major != 1)
      throw_type_error(
          fmt::format("its DLPack version is {}.{}; Kiln takes 1.x", managed->version.major, managed->version.minor));
  const TensorView view = dlpack::view_of(managed->array);  // what can be refused comes before ownership moves
  if (PyCapsule_SetName(capsule.ptr(), used_name) != 0) throw py::error_already_set();
  return Tensor(view, std::shared_ptr<void>(managed, [](void* owned) {
                  auto* tensor = static_cast<M*>(owned);
                  if (tensor->deleter != nullptr) tensor->deleter(tensor);
                }));
}

}  // namespace

ArraySource read_dlpack(PyObject* object, ArrayKind kind, std::optional<void*> stream, Tensor& tensor) {
  const py::handle array(object);
  if (kind == ArrayKind::jax && py::hasattr(array, "is_deleted") && array.attr("is_deleted")().cast<bool>())
    throw_value_error("it was deleted: by delete(), or donated to a jitted function");
  const auto device = array.attr("__dlpack_device__")().cast<std::pair<std::int32_t, std::int32_t>>();
  py::dict arguments;
  if (device.first == dlpack::kCuda) {
    if (kind == ArrayKind::torch || kind == ArrayKind::cupy)
      arguments["stream"] = kDoNotWait;
    else if (stream.value_or(nullptr) != nullptr)
      arguments["stream"] = reinterpret_cast<std::uintptr_t>(*stream);
    else
      arguments["stream"] = kLegacyDefaultStream;
  } else if (kind == ArrayKind::jax) {
    array.attr("block_until_ready")();
  }
  const py::object capsule = call_dlpack(array, arguments);
  bool read_only = kind == ArrayKind::jax;  // immutable, whatever the flag says
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto* managed =
        static_cast<const dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    read_only |= (managed->flags & dlpack::kReadOnly) != 0;
    tensor = take_over<dlpack::ManagedVersioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
  } else {
    tensor = take_over<dlpack::Managed>(capsule, "dltensor", "used_dltensor");
  }
  return {kind, read_only};
}

}  // namespace kiln::python
