#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "autotune/tuning_entry.hpp"
#include "core/device.hpp"

namespace kiln::python {

namespace py = pybind11;

/// How times are taken on `device`: None for its default, or text such as "graph" or "eager, hot L2". UsageError(value)
/// for another text, and for graphs and flushed caches on the CPU, which has neither.
MeasuringPolicy measuring_argument(py::handle text_or_none, Device device);

/// The same of a policy's parts; what is unset is the device's default.
MeasuringPolicy measuring_argument(bool graph, std::optional<bool> flush_l2, Device device);

}  // namespace kiln::python
