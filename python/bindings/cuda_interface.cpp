#include "python/bindings/cuda_interface.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "core/errors.hpp"
#include "python/bindings/gil.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory_location.hpp"
#include "runtime/stream.hpp"

namespace kiln::python {
namespace {

DType parse_typestr(const std::string& text) {
  if (text.size() >= 3 && (text[0] == '<' || text[0] == '|' || text[0] == '='))
    for (const DType dtype : kAllDTypes)
      if (dtype != DType::bf16 && !is_fp8(dtype) && typestr_of(dtype).substr(1) == text.substr(1)) return dtype;
  throw_type_error(fmt::format("its typestr '{}' is none of Kiln's dtypes", text));
}

/// The GPU that the array itself names, as CuPy's and Numba's do; the first one otherwise.
Device named_device(py::handle array) {
  const py::object id = py::getattr(py::getattr(array, "device", py::none()), "id", py::none());
  if (!PyLong_Check(id.ptr())) return Device::cuda();
  const auto index = id.cast<std::int32_t>();
  return index < 0 ? Device::cuda() : Device::cuda(index);
}

/// The interface does not say which GPU it is, and a kernel that reads an address of none would cost the process its
/// context.
Device device_of(py::handle array, const TensorView& view) {
  if (view.numel() == 0) return named_device(array);
  if (const std::optional<Device> device = gpu_of_memory(view.data)) return *device;
  throw_value_error(fmt::format("its __cuda_array_interface__ names the address {}, which is no memory of a GPU{}",
                                view.data, device_count(DeviceType::cuda) > 0 ? "" : ": there is none"));
}

[[noreturn]] void refuse_malformed() {
  throw_type_error(
      "its __cuda_array_interface__ is malformed: expected a typestr, a shape of integers, an (address, read-only) "
      "pair");
}

}  // namespace

std::string typestr_of(DType dtype) {
  if (dtype == DType::bf16 || is_fp8(dtype))
    throw_not_implemented(fmt::format("the array interface has no {}; use DLPack", name(dtype)));
  const char kind = dtype == DType::bool_ ? 'b' : is_floating(dtype) ? 'f' : info(dtype).is_signed ? 'i' : 'u';
  return fmt::format("{}{}{}", itemsize_bytes(dtype) == 1 ? '|' : '<', kind, itemsize_bytes(dtype));
}

ArraySource read_cuda_interface(PyObject* object, ArrayKind kind, Tensor& tensor) try {
  const py::handle array(object);
  const auto interface = array.attr("__cuda_array_interface__").cast<py::dict>();
  if (interface.contains("mask") && !interface["mask"].is_none())
    throw_type_error("it has a mask, which would be lost; pass the bare data");
  TensorView view;
  view.dtype = parse_typestr(interface["typestr"].cast<std::string>());
  const auto [address, read_only] = interface["data"].cast<std::pair<std::uintptr_t, bool>>();
  view.data = reinterpret_cast<void*>(address);
  for (const py::handle extent : interface["shape"].cast<py::tuple>())
    view.shape.push_back(extent.cast<std::int64_t>());
  view.strides = contiguous_strides(view.shape);
  if (interface.contains("strides") && !interface["strides"].is_none()) {
    const std::int64_t itemsize = itemsize_bytes(view.dtype);
    int axis = 0;
    const auto strides = interface["strides"].cast<py::tuple>();
    if (strides.size() != static_cast<std::size_t>(view.ndim()))
      throw_value_error(fmt::format("it has {} strides for {} dimensions", strides.size(), view.ndim()));
    for (const py::handle stride : strides) {
      const auto stride_bytes = stride.cast<std::int64_t>();
      if (stride_bytes % itemsize != 0 && view.shape[axis] > 1)
        throw_value_error(fmt::format("stride {} is {} bytes, no multiple of the {} bytes of an element", axis,
                                      stride_bytes, itemsize));
      view.strides[axis++] = stride_bytes / itemsize;
    }
  }
  view.device = device_of(array, view);
  const py::object stream = interface.contains("stream") ? py::object(interface["stream"]) : py::none();
  if (kind != ArrayKind::cupy && !stream.is_none()) {
    const auto handle = stream.cast<std::uintptr_t>();
    const GilReleased released;
    synchronize({view.device, handle == 1 ? nullptr : reinterpret_cast<void*>(handle)});
  }
  tensor = Tensor(view, nullptr);
  return {kind, read_only};
} catch (const py::cast_error&) {
  refuse_malformed();
} catch (py::error_already_set& error) {
  if (!error.matches(PyExc_KeyError)) throw;
  refuse_malformed();
}

py::dict cuda_interface_of(const TensorView& view, bool read_only) {
  py::tuple shape(view.ndim()), strides(view.ndim());
  for (int axis = 0; axis < view.ndim(); ++axis) {
    shape[static_cast<std::size_t>(axis)] = view.shape[axis];
    strides[static_cast<std::size_t>(axis)] = view.strides[axis] * itemsize_bytes(view.dtype);
  }
  py::dict interface;
  interface["shape"] = shape;
  interface["strides"] = strides;
  interface["typestr"] = typestr_of(view.dtype);
  interface["data"] = py::make_tuple(reinterpret_cast<std::uintptr_t>(view.data), read_only);
  interface["version"] = 3;
  return interface;
}

}  // namespace kiln::python
