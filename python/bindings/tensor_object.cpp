#include "python/bindings/tensor_object.hpp"

#include <fmt/format.h>

#include <string>

#include "core/errors.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/cuda_interface.hpp"
#include "python/bindings/dlpack_abi.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/numpy_array.hpp"
#include "runtime/event.hpp"
#include "runtime/memory.hpp"
#include "runtime/recording.hpp"

namespace kiln::python {
namespace {

PyObject* g_tensor_type = nullptr;  // lives as long as the process

py::tuple tuple_of(const Dims& dims) {
  py::tuple tuple(dims.size());
  for (int axis = 0; axis < dims.size(); ++axis) tuple[static_cast<std::size_t>(axis)] = dims[axis];
  return tuple;
}

/// The memory on the CPU: itself, or a copy of what is on a GPU once the work on it is done.
Tensor on_cpu(const TensorObject& object) {
  if (!object.tensor.device().is_cuda()) return object.tensor;
  const GilReleased released;
  synchronize(object.stream);
  return to_device(object.tensor, Device::cpu());
}

/// Makes the consumer's stream, as DLPack numbers them, wait for the tensor's.
void hand_over(const TensorObject& object, const py::object& stream) {
  const Device device = object.tensor.device();
  if (!device.is_cuda()) {
    if (!stream.is_none() && stream.cast<std::int64_t>() != -1)
      throw_value_error("__dlpack__: a tensor on the CPU has no stream; stream must be None");
    return;
  }
  const std::int64_t number = stream.is_none() ? 1 : stream.cast<std::int64_t>();
  if (number == -1) return;  // the consumer sees to it
  // Nothing was enqueued that a consumer could wait for; launches of the graph are ordered before those who come later.
  if (Recording::of(object.stream) != nullptr) return;
  void* handle = number <= 1 ? nullptr : reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
  if (handle == object.stream.handle) return;
  Event written(device);
  written.record(object.stream);
  written.wait({device, handle});
}

template <typename M>
py::capsule capsule_of(const Tensor& tensor, const char* name) {
  M* managed = dlpack::export_tensor<M>(tensor);
  PyObject* capsule = PyCapsule_New(managed, name, [](PyObject* owner) {
    // A consumer that took the tensor over has renamed the capsule.
    const char* current = PyCapsule_GetName(owner);
    if (current == nullptr || std::string_view(current).starts_with("used_")) return;
    auto* left = static_cast<M*>(PyCapsule_GetPointer(owner, current));
    left->deleter(left);
  });
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::capsule>(capsule);
}

py::capsule dlpack_of(const TensorObject& object, const py::object& stream, const py::object& max_version,
                      const py::object& dl_device, const py::object& copy) {
  Tensor tensor = object.tensor;
  const Device device = tensor.device();
  const std::pair<std::int32_t, std::int32_t> here{device.is_cuda() ? dlpack::kCuda : dlpack::kCpu, device.index};
  const bool wants_cpu = !dl_device.is_none() && dl_device.cast<std::pair<std::int32_t, std::int32_t>>() != here;
  if (wants_cpu && dl_device.cast<std::pair<std::int32_t, std::int32_t>>().first != dlpack::kCpu)
    throw py::buffer_error("kiln.Tensor.__dlpack__ copies to the CPU only");
  if (wants_cpu && !copy.is_none() && !copy.cast<bool>())
    throw py::buffer_error("a tensor on a GPU cannot be had on the CPU without a copy");
  if (wants_cpu)
    tensor = on_cpu(object);
  else if (!copy.is_none() && copy.cast<bool>())
    throw py::buffer_error("kiln.Tensor.__dlpack__ makes no copies on the same device");
  else
    hand_over(object, stream);
  const bool versioned = !max_version.is_none() && max_version.cast<std::pair<int, int>>().first >= 1;
  return versioned ? capsule_of<dlpack::ManagedVersioned>(tensor, "dltensor_versioned")
                   : capsule_of<dlpack::Managed>(tensor, "dltensor");
}

py::object array_of(const TensorObject& object, const py::object& dtype, const py::object& copy) {
  const bool is_cuda = object.tensor.device().is_cuda();
  if (is_cuda && !copy.is_none() && !copy.cast<bool>())
    throw_value_error("a tensor on a GPU is copied to the CPU; copy=False cannot be had");
  py::object array = to_numpy(on_cpu(object));
  if (!dtype.is_none() && !py::object(array.attr("dtype")).equal(dtype)) return array.attr("astype")(dtype);
  if (!is_cuda && !copy.is_none() && copy.cast<bool>()) return array.attr("copy")();
  return array;
}

[[noreturn]] void refuse_attribute(const char* text) {
  throw py::attribute_error(text);
}

}  // namespace

py::handle tensor_type() {
  return g_tensor_type;
}

py::object make_tensor_object(const Tensor& tensor, Stream stream) {
  return py::cast(TensorObject{tensor, stream});
}

void bind_tensor(py::module_& module) {
  const auto view = [](const TensorObject& object) -> const TensorView& { return object.tensor.view(); };
  py::class_<TensorObject> type(module, "Tensor",
                                "An array that Kiln owns, on the CPU or a GPU. Array libraries take it through DLPack "
                                "(torch.from_dlpack, cupy.from_dlpack), NumPy through numpy.asarray.",
                                py::is_final());
  g_tensor_type = type.inc_ref().ptr();
  type.attr("__module__") = "kiln";
  type.def_property_readonly("shape", [view](const TensorObject& self) { return tuple_of(view(self).shape); })
      .def_property_readonly(
          "strides", [view](const TensorObject& self) { return tuple_of(view(self).strides); },
          "In elements, as torch has them.")
      .def_property_readonly("dtype", [view](const TensorObject& self) { return view(self).dtype; })
      .def_property_readonly(
          "device", [view](const TensorObject& self) { return to_string(view(self).device); }, "\"cpu\", \"cuda:0\".")
      .def_property_readonly("ndim", [view](const TensorObject& self) { return view(self).ndim(); })
      .def_property_readonly(
          "size", [view](const TensorObject& self) { return view(self).numel(); }, "Number of elements.")
      .def_property_readonly(
          "nbytes", [view](const TensorObject& self) { return view(self).numel() * itemsize_bytes(view(self).dtype); })
      .def_property_readonly(
          "data_ptr", [view](const TensorObject& self) { return reinterpret_cast<std::uintptr_t>(view(self).data); },
          "The address of the first element.")
      .def(
          "numpy", [](const TensorObject& self) { return to_numpy(on_cpu(self)); },
          "A NumPy array of the same memory; of a copy, once the work on the tensor is done, when it is on a GPU.")
      .def("__array__", &array_of, py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack__", &dlpack_of, py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
           py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__",
           [view](const TensorObject& self) {
             const Device device = view(self).device;
             return std::pair(device.is_cuda() ? dlpack::kCuda : dlpack::kCpu, device.index);
           })
      .def_property_readonly("__cuda_array_interface__",
                             [view](const TensorObject& self) {
                               if (!view(self).device.is_cuda()) refuse_attribute("the tensor is on the CPU");
                               py::dict interface = cuda_interface_of(view(self), false);
                               const auto handle = reinterpret_cast<std::uintptr_t>(self.stream.handle);
                               interface["stream"] = handle == 0 ? std::uintptr_t{1} : handle;
                               return interface;
                             })
      .def("__len__",
           [view](const TensorObject& self) {
             if (view(self).ndim() == 0) throw py::type_error("a tensor without dimensions has no length");
             return view(self).shape[0];
           })
      .def("__repr__",
           [view](const TensorObject& self) { return fmt::format("<kiln.Tensor {}>", describe(view(self))); });
}

}  // namespace kiln::python
