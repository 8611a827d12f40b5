#include "python/bindings/stream_object.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/held_arrays.hpp"
#include "runtime/device_info.hpp"

namespace kiln::python {
namespace {

PyObject* g_stream_type = nullptr;  // lives as long as the process

/// Streams that nobody uses at the moment, by device and the priority that was asked for.
class StreamPool {
 public:
  std::unique_ptr<OwnedStream> take(Device device, int priority) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<std::unique_ptr<OwnedStream>>& idle = idle_[{device, priority}];
      if (!idle.empty()) {
        std::unique_ptr<OwnedStream> stream = std::move(idle.back());
        idle.pop_back();
        return stream;
      }
    }
    return std::make_unique<OwnedStream>(device, priority);
  }
  void give_back(std::unique_ptr<OwnedStream> stream, int priority) noexcept {
    const Device device = stream->get().device;
    try {
      const std::lock_guard lock(mutex_);
      idle_[{device, priority}].push_back(std::move(stream));
    } catch (const std::exception&) {
      static_cast<void>(stream.release());  // no host memory: one stream is lost, and what is freed on it is not
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<Device, int>, std::vector<std::unique_ptr<OwnedStream>>> idle_;
};

StreamPool& stream_pool() {
  static auto* const pool = new StreamPool;  // never destroyed: arrays may be freed while the process exits
  return *pool;
}

StreamObject lend_stream(Device device, int priority) {
  device_info(device);  // says which devices there are when this one is not
  std::unique_ptr<OwnedStream> owned = stream_pool().take(device, priority);
  const Stream stream = owned->get();
  std::shared_ptr<void> loan(owned.release(), [priority](void* lent) {
    stream_pool().give_back(std::unique_ptr<OwnedStream>(static_cast<OwnedStream*>(lent)), priority);
  });
  return {stream, std::move(loan)};
}

std::uintptr_t address_of(Stream stream) {
  return reinterpret_cast<std::uintptr_t>(stream.handle);
}

}  // namespace

py::object make_stream_object(Device device, int priority) {
  return py::cast(lend_stream(device, priority));
}

std::optional<Stream> kiln_stream(py::handle object) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) != g_stream_type) return std::nullopt;
  return py::cast<const StreamObject*>(object)->stream;
}

Device device_or_default(py::handle device) {
  if (!device.is_none()) return parse_device(py::str(device).cast<std::string>());
  return device_count(DeviceType::cuda) > 0 ? Device::cuda(0) : Device::cpu();
}

py::class_<StreamObject> define_stream(py::module_& module) {
  py::class_<StreamObject> type(module, "Stream",
                                "Stream(device=None, priority=0)\n\nA queue of work on a device; without a device of "
                                "the first GPU, or of the CPU where there is none. Takes the place of a stream of "
                                "torch or CuPy wherever Kiln takes one.",
                                py::is_final());
  g_stream_type = py::handle(type).inc_ref().ptr();
  type.attr("__module__") = "kiln";
  construct_with(type, py::cpp_function([](const py::object& device,
                                           int priority) { return lend_stream(device_or_default(device), priority); },
                                        py::name("Stream"), py::arg("device") = py::none(), py::arg("priority") = 0));
  type.def_property_readonly(
          "device", [](const StreamObject& self) { return to_string(self.stream.device); }, "\"cpu\", \"cuda:0\".")
      .def_property_readonly(
          "priority", [](const StreamObject& self) { return stream_priority(self.stream); },
          "Lower is more urgent; 0 on the CPU.")
      .def_property_readonly(
          "cuda_stream", [](const StreamObject& self) { return address_of(self.stream); },
          "The CUstream as an integer, as torch has it: torch.cuda.ExternalStream takes it. 0 on the CPU.")
      .def("__cuda_stream__", [](const StreamObject& self) { return std::pair(0, address_of(self.stream)); })
      .def(
          "synchronize",
          [](const StreamObject& self) {
            const GilReleased released;
            synchronize(self.stream);
            release_done_transfers();
          },
          "Waits for the stream's work. DeviceError where a kernel failed.")
      .def("__repr__", [](const StreamObject& self) {
        return self.stream.device.is_cuda()
                   ? fmt::format("<kiln.Stream {} {:#x}>", to_string(self.stream.device), address_of(self.stream))
                   : std::string("<kiln.Stream cpu>");
      });
  return type;
}

}  // namespace kiln::python
