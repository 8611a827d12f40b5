#include "python/bindings/host_registration.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/quantity.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/closeable.hpp"
#include "python/bindings/gpu_presence.hpp"
#include "python/bindings/held_arrays.hpp"
#include "python/bindings/stream_object.hpp"
#include "runtime/host_memory.hpp"

namespace kiln::python {
namespace {

/// Memory that is page-locked, and the array whose memory it is: that goes after the lock.
struct LockedArray {
  std::shared_ptr<void> array;
  std::shared_ptr<void> lock;
};

class HostRegistration {
 public:
  HostRegistration(LockedArray locked, std::int64_t size_bytes, Device device)
      : size_bytes_(size_bytes),
        device_(device),
        locked_("HostRegistration", std::make_shared<LockedArray>(std::move(locked))) {}
  ~HostRegistration() { close(); }
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;

  Device device() const noexcept { return device_; }
  std::int64_t size_bytes() const noexcept { return size_bytes_; }
  bool is_closed() const noexcept { return locked_.is_closed(); }
  py::object array() const {
    return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(locked_.get()->array.get()));
  }

  void close() noexcept {
    if (is_closed()) return;
    settle();
    locked_.close();
  }

 private:
  /// What still copies from or to the memory would meet pages that are not locked.
  void settle() const noexcept {
    std::optional<GilReleased> released;
    if (may_release_gil()) released.emplace();
    try {
      wait_for_transfers(device_);
    } catch (const Error&) {
      return;  // the device's failure meets whoever waits for its work
    }
  }

  std::int64_t size_bytes_;
  Device device_;
  Closeable<LockedArray> locked_;
};

std::unique_ptr<HostRegistration> register_array(py::handle array, const py::object& device) {
  const Device place = device.is_none() ? Device::cuda() : device_or_default(device);
  if (array.is_none()) throw_type_error("array: expected an array, got None");
  const ArrayArgument argument = array_argument(array, "array");
  if (argument.tensor.device().is_cuda())
    throw_value_error(
        fmt::format("array: {} is not in CPU memory, which is what can be page-locked", describe(argument.tensor)));
  require_gpu(place, "without a GPU nothing asks for page-locked memory: leave the registration out");
  const ByteRange bytes = byte_range(argument.tensor);
  LockedArray locked{share(py::reinterpret_borrow<py::object>(array)), nullptr};
  {
    const GilReleased released;
    locked.lock = register_host_memory(const_cast<std::byte*>(bytes.begin), bytes.end - bytes.begin, place);
  }
  return std::make_unique<HostRegistration>(std::move(locked), bytes.end - bytes.begin, place);
}

}  // namespace

void bind_host_registration(py::module_& module) {
  py::class_<HostRegistration> type(module, "HostRegistration",
                                    "What kiln.register_host_memory returns: an array whose memory is page-locked "
                                    "until this is closed or goes.",
                                    py::is_final());
  type.attr("__module__") = "kiln";
  type.def_property_readonly("array", &HostRegistration::array, "The array, which is held. ValueError once closed.")
      .def_property_readonly("nbytes", &HostRegistration::size_bytes, "From the array's first byte to its last.")
      .def_property_readonly("device", [](const HostRegistration& self) { return to_string(self.device()); })
      .def("__repr__", [](const HostRegistration& self) {
        return fmt::format("<kiln.HostRegistration of {} for {}{}>", format_bytes(self.size_bytes()),
                           to_string(self.device()), self.is_closed() ? ", closed" : "");
      });
  define_closing(type,
                 "Ends the page lock, once the transfers of Kiln on the device are done; wait for other work on the "
                 "memory yourself.");
  module.def(
      "register_host_memory", &register_array, py::arg("array"), py::arg("device") = py::none(),
      "Page-locks the memory of an array on the CPU and maps it for every GPU, without a copy: "
      "with kiln.register_host_memory(array): ...\n\nReturns a kiln.HostRegistration, which holds the array. Memory "
      "that may only be read is mapped so. `device`: the GPU that does it, the first where none is given. "
      "ValueError for an array without elements, on a GPU, and for memory that is page-locked already; "
      "DeviceError where there is no GPU, or the system refuses.");
}

}  // namespace kiln::python
