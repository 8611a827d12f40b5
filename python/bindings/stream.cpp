#include "python/bindings/stream.hpp"

#include <fmt/format.h>

#include <optional>

#include "core/errors.hpp"
#include "python/bindings/array_type.hpp"
#include "python/bindings/dlpack_abi.hpp"
#include "python/bindings/stream_object.hpp"
#include "python/bindings/stream_scope.hpp"

namespace kiln::python {
namespace {

void* handle_of(py::handle number) {
  if (!PyLong_Check(number.ptr()))
    throw_type_error(fmt::format("stream: its handle is a {}, no integer", Py_TYPE(number.ptr())->tp_name));
  const auto value = static_cast<std::uintptr_t>(PyLong_AsSize_t(number.ptr()));
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw_value_error(fmt::format("stream: {} is no CUstream's address", py::repr(number).cast<std::string>()));
  }
  // CUDA's numbers for the legacy default stream; 2, the per-thread one, is a handle that the driver knows.
  return value <= 1 ? nullptr : reinterpret_cast<void*>(value);
}

std::optional<void*> explicit_handle(py::handle stream) {
  if (PyLong_Check(stream.ptr()) && !PyBool_Check(stream.ptr())) {
    if (py::int_(py::reinterpret_borrow<py::object>(stream)) < py::int_(0)) return std::nullopt;
    return handle_of(stream);
  }
  if (py::hasattr(stream, "cuda_stream")) return handle_of(stream.attr("cuda_stream"));  // torch
  if (py::hasattr(stream, "__cuda_stream__")) {
    py::object answer = stream.attr("__cuda_stream__");
    if (PyCallable_Check(answer.ptr()) != 0) answer = answer();
    return handle_of(answer.cast<std::pair<int, py::object>>().second);  // (protocol version, handle)
  }
  if (py::hasattr(stream, "ptr")) return handle_of(stream.attr("ptr"));  // CuPy
  return std::nullopt;
}

void* current_stream(Device device, ArrayKind kind) {
  if (const std::optional<Stream> scoped = StreamScope::current(device, kind == ArrayKind::torch))
    return scoped->handle;
  if (kind == ArrayKind::torch) {
    if (const dlpack::ExchangeApi* api = torch_exchange_api()) {
      void* stream = nullptr;
      if (api->current_stream(dlpack::kCuda, device.index, &stream) != 0) throw py::error_already_set();
      return stream;
    }
    return handle_of(py::module_::import("torch.cuda").attr("current_stream")(device.index).attr("cuda_stream"));
  }
  if (kind == ArrayKind::cupy) {
    const py::object cuda = py::module_::import("cupy").attr("cuda");
    const py::object context = cuda.attr("Device")(device.index);
    context.attr("__enter__")();
    const py::object stream = cuda.attr("get_current_stream")();
    context.attr("__exit__")();
    return handle_of(stream.attr("ptr"));
  }
  return nullptr;
}

/// The device a stream object of another library names.
std::optional<Device> device_of(py::handle object) {
  if (py::hasattr(object, "device")) return parse_device(py::str(object.attr("device")).cast<std::string>());  // torch
  if (!py::hasattr(object, "device_id")) return std::nullopt;
  const int ordinal = object.attr("device_id").cast<int>();  // CuPy; -1: its default stream, of any device
  return ordinal < 0 ? std::nullopt : std::optional(Device::cuda(ordinal));
}

}  // namespace

Stream stream_argument(py::handle stream_or_none, Device device, ArrayKind kind) {
  if (stream_or_none.is_none()) return {device, device.is_cuda() ? current_stream(device, kind) : nullptr};
  if (const std::optional<Stream> given = kiln_stream(stream_or_none)) {
    if (given->device != device)
      throw_value_error(fmt::format("stream: it is a stream of {}, and the work is on {}", to_string(given->device),
                                    to_string(device)));
    return *given;
  }
  if (!device.is_cuda()) throw_type_error("stream: the call's tensors are on the CPU, where calls have no stream");
  return {device, stream_handle(stream_or_none)};
}

ArrayKind library_of_streams() {
  const py::dict modules = py::module_::import("sys").attr("modules");
  if (modules.contains("torch")) return ArrayKind::torch;
  return modules.contains("cupy") ? ArrayKind::cupy : ArrayKind::other;
}

void* stream_handle(py::handle stream) {
  if (const std::optional<Stream> given = kiln_stream(stream)) return given->handle;
  if (const std::optional<void*> handle = explicit_handle(stream)) return *handle;
  throw_type_error(fmt::format(
      "stream: expected a kiln.Stream, a CUstream as an integer, or an object with cuda_stream (torch), ptr (CuPy) or "
      "__cuda_stream__, got {}",
      Py_TYPE(stream.ptr())->tp_name));
}

Stream any_stream(py::handle object, std::optional<Device> device) {
  if (const std::optional<Stream> stream = kiln_stream(object)) return *stream;
  if (!object.is_none())
    if (const std::optional<Device> named = device_of(object)) device = named;
  if (!device)
    throw_type_error(fmt::format("stream: {} says no device; give a stream object, of kiln.Stream, torch or CuPy",
                                 py::repr(object).cast<std::string>()));
  return stream_argument(object, *device, library_of_streams());
}

}  // namespace kiln::python
