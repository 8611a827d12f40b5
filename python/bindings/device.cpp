#include "python/bindings/device.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/array.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/held_arrays.hpp"
#include "python/bindings/stream.hpp"
#include "python/bindings/tensor_meta.hpp"
#include "python/bindings/tensor_object.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"
#include "runtime/stream.hpp"

namespace kiln::python {
namespace {

/// A name ("cpu", "cuda:1") or whatever prints as one, such as a torch.device.
Device device_argument(py::handle device) {
  return parse_device(py::str(device).cast<std::string>());
}

py::dict device_dict(Device device) {
  const DeviceInfo& info = device_info(device);
  py::dict dict;
  dict["device"] = to_string(device);
  dict["name"] = info.name;
  dict["target"] = to_string(info.target);
  dict["processors"] = info.processors;
  dict["memory_bytes"] = info.memory_bytes;
  dict["l2_bytes"] = info.l2_bytes;
  dict["peak_bandwidth_gb_s"] = info.peak_bandwidth_gb_s;
  return dict;
}

py::list devices() {
  py::list list;
  list.append(device_dict(Device::cpu()));
  const int count = device_count(DeviceType::cuda);
  for (int i = 0; i < count; ++i) list.append(device_dict(Device::cuda(i)));
  return list;
}

void synchronize_devices(const py::object& device) {
  if (!device.is_none()) {
    const Device one = device_argument(device);
    device_info(one);  // says which devices there are when this one is not
    const GilReleased released;
    synchronize(Stream::default_of(one));
    release_done_transfers();
    return;
  }
  const GilReleased released;
  const int count = device_count(DeviceType::cuda);
  for (int i = 0; i < count; ++i) synchronize(Stream::default_of(Device::cuda(i)));
  release_done_transfers();
}

py::object make_empty(py::handle shape, py::handle dtype, const py::object& device, const py::object& stream) {
  const Device place = device_argument(device);
  const Dims dims = dims_argument(shape);
  const DType type = dtype_argument(dtype);
  const Stream where = stream_argument(stream, place, ArrayKind::kiln);
  if (place.is_cuda()) device_info(place);
  return make_tensor_object(empty(dims, type, where), where);
}

py::object copy_to(py::handle array, const py::object& device) {
  const Device place = device_argument(device);
  const ArrayArgument argument = array_argument(array, "array");
  if (array.is_none()) throw_type_error("array: expected an array, got None");
  if (place.is_cuda()) device_info(place);
  Tensor copied;
  {
    const GilReleased released;
    copied = to_device(argument.tensor, place);
  }
  return make_tensor_object(copied, Stream::default_of(place));
}

}  // namespace

void bind_device(py::module_& module) {
  module.def("devices", &devices,
             "What Kiln can run on here: the CPU, then each GPU; a dict each, with device, name, target, processors, "
             "memory_bytes, l2_bytes, peak_bandwidth_gb_s.");
  module.def(
      "device_problem", [] { return device_problem(DeviceType::cuda); }, "Why there is no GPU; empty when there is.");
  module.def("synchronize", &synchronize_devices, py::arg("device") = py::none(),
             "Wait for the work of a device's default stream, of all GPUs without one. DeviceError where a kernel "
             "failed.");
  module.def("empty", &make_empty, py::arg("shape"), py::arg("dtype") = "f32", py::arg("device") = "cpu", py::kw_only(),
             py::arg("stream") = py::none(),
             "An uninitialised kiln.Tensor, dense. On a GPU its memory is the stream's.");
  module.def("to_device", &copy_to, py::arg("array"), py::arg("device"),
             "A dense copy on a device, as a kiln.Tensor. Waits for the work on the array's device, and for the copy.");
}

}  // namespace kiln::python
