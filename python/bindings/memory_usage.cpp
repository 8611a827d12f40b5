#include "python/bindings/memory_usage.hpp"

#include "python/bindings/attribute_dict.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/stream_object.hpp"
#include "runtime/memory_usage.hpp"

namespace kiln::python {
namespace {

/// What was asked of which device: how it reads depends on that.
struct MemoryUsageObject {
  MemoryUsage usage;
  Device device;
};

MemoryUsageObject usage_of(const py::object& device) {
  const Device place = device_or_default(device);
  const GilReleased released;
  return {memory_usage(place), place};
}

}  // namespace

void bind_memory_usage(py::module_& module) {
  using Object = MemoryUsageObject;
  py::class_<Object> type(module, "MemoryUsage", "Memory of a device at one moment, in bytes.", py::is_final());
  type.def_property_readonly("device", [](const Object& self) { return to_string(self.device); })
      .def_property_readonly("total_bytes", [](const Object& self) { return self.usage.total_bytes; })
      .def_property_readonly(
          "free_bytes", [](const Object& self) { return self.usage.free_bytes; },
          "CPU: what is there without swapping. GPU: what the driver has left.")
      .def_property_readonly(
          "used_bytes", [](const Object& self) { return self.usage.used_bytes; },
          "CPU: resident memory of this process. GPU: everything that is not free, of all processes.")
      .def_property_readonly(
          "pool_reserved_bytes", [](const Object& self) { return self.usage.pool_reserved_bytes; },
          "GPU: what the device's default memory pool keeps of used_bytes; 0 on the CPU.")
      .def_property_readonly(
          "pool_used_bytes", [](const Object& self) { return self.usage.pool_used_bytes; },
          "How much of pool_reserved_bytes somebody holds.")
      .def_property_readonly(
          "available_bytes", [](const Object& self) { return self.usage.available_bytes(); },
          "What tensors could take: the free memory, and what the pool keeps for nobody.")
      .def("__str__", [](const Object& self) { return to_string(self.usage, self.device); });
  define_dict(type, {"device", "total_bytes", "free_bytes", "used_bytes", "pool_reserved_bytes", "pool_used_bytes",
                     "available_bytes"});
  module.def("memory_usage", &usage_of, py::arg("device") = py::none(),
             "The kiln.MemoryUsage of a device; without one of the first GPU, or of the CPU where there is none. "
             "ValueError for a device that is not there.");
}

}  // namespace kiln::python
