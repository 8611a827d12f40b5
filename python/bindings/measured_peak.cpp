#include "registry/inspection/measured_peak.hpp"

#include "python/bindings/attributes.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/measured_peak.hpp"
#include "python/bindings/stream_object.hpp"

namespace kiln::python {

void bind_measured_peak(py::module_& module) {
  py::class_<MeasuredRate> rate(module, "MeasuredRate", "What one op reached on one device.");
  rate.attr("__module__") = "kiln";
  rate.def_readonly("op", &MeasuredRate::op)
      .def_readonly("call", &MeasuredRate::call, "\"f32 (89478485), f32 (89478485)\".")
      .def_property_readonly("config", [](const MeasuredRate& self) { return to_python(self.config); })
      .def_readonly("bytes", &MeasuredRate::bytes, "Of each call, read and written.")
      .def_readonly("flops", &MeasuredRate::flops)
      .def_readonly("best_us", &MeasuredRate::best_us)
      .def_readonly("median_us", &MeasuredRate::median_us)
      .def_readonly("samples", &MeasuredRate::samples)
      .def_property_readonly("gb_s", &MeasuredRate::gb_s)
      .def_property_readonly("tflop_s", &MeasuredRate::tflop_s);
  py::class_<MeasuredPeak> peak(module, "MeasuredPeak", "What a device's memory gives Kiln's own kernels.");
  peak.attr("__module__") = "kiln";
  peak.def_property_readonly("device", [](const MeasuredPeak& self) { return to_string(self.device); })
      .def_readonly("device_name", &MeasuredPeak::device_name)
      .def_readonly("bandwidth_gb_s", &MeasuredPeak::bandwidth_gb_s)
      .def_readonly("cache_bytes", &MeasuredPeak::cache_bytes, "Of the last level; 0 when unknown.")
      .def_readonly("data_bytes", &MeasuredPeak::data_bytes, "Of the tensors of each call.")
      .def_readonly("exceeds_cache", &MeasuredPeak::exceeds_cache,
                    "Whether data_bytes is 4 times cache_bytes; not where memory is short.")
      .def_property_readonly(
          "rates",
          [](const MeasuredPeak& self) {
            py::list list;
            for (const MeasuredRate& item : self.rates) list.append(py::cast(item));
            return list;
          },
          "A kiln.MeasuredRate for each op, best first.")
      .def("__str__", [](const MeasuredPeak& self) { return to_string(self); })
      .def("__repr__", [](const MeasuredPeak& self) { return "<kiln.MeasuredPeak " + to_string(self) + ">"; });
  module.def(
      "measured_peak",
      [](const py::object& device) {
        const Device place = device_or_default(device);
        const GilReleased released;
        return measured_peak(place);
      },
      py::arg("device") = py::none(),
      "The bandwidth of a device's memory as measured on it, by the best of sum, copy and add over more data than "
      "caches "
      "hold; of the first GPU, or the CPU, where none is given. Takes some seconds once in a process; reports of "
      "profilers use it from then on.");
  module.def(
      "measured_matmul_peak",
      [](const py::object& device, py::handle dtype) {
        const Device place = device_or_default(device);
        const DType type = dtype_argument(dtype);
        const GilReleased released;
        return measured_matmul_peak(place, type);
      },
      py::arg("device") = py::none(), py::arg("dtype") = "f32",
      "The most that matmul reaches on square matrices of a dtype, as dispatched; kept like measured_peak.");
}

}  // namespace kiln::python
