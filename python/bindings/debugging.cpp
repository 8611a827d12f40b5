#include "python/bindings/debugging.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/array_making.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/bound_call.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/tensor_layout.hpp"
#include "python/bindings/tensor_meta.hpp"
#include "registry/inspection/debug_op.hpp"
#include "registry/plan/numbered_tensors.hpp"

namespace kiln::python {
namespace {

/// A report with the call's results as Python knows them.
struct DebugObject {
  DebugReport report;
  py::list results;
};

/// An extreme as Python's number: an integer of an integer dtype is exact.
py::object number(long double value, DType dtype) {
  if (is_floating(dtype)) return py::float_(static_cast<double>(value));
  return value < 0 ? py::object(py::int_(static_cast<std::int64_t>(value)))
                   : py::object(py::int_(static_cast<std::uint64_t>(value)));
}

py::object statistics_of(const std::optional<TensorStatistics>& statistics, DType dtype) {
  if (!statistics) return py::none();
  py::dict dict;
  dict["num_elements"] = statistics->num_elements;
  dict["num_nan"] = statistics->num_nan;
  dict["num_inf"] = statistics->num_inf;
  dict["min"] = number(statistics->min, dtype);
  dict["max"] = number(statistics->max, dtype);
  dict["mean"] = statistics->mean;
  return dict;
}

py::list tensors_of(const std::vector<DebuggedTensor>& tensors) {
  py::list list;
  for (const DebuggedTensor& tensor : tensors) {
    py::dict dict;
    dict["name"] = tensor.name;
    dict["is_absent"] = tensor.is_absent;
    if (!tensor.is_absent) {
      dict["is_changed"] = tensor.is_changed;
      dict["layout"] = layouts_of({&tensor.view, 1})[0];
      dict["alignment_bytes"] = tensor.alignment_bytes;
      dict["before"] = statistics_of(tensor.before, tensor.view.dtype);
      dict["after"] = statistics_of(tensor.after, tensor.view.dtype);
    }
    list.append(dict);
  }
  return list;
}

py::list comparisons_of(const std::vector<DebuggedResult>& results) {
  py::list list;
  for (const DebuggedResult& result : results) {
    py::dict dict;
    dict["name"] = result.name;
    dict["is_compared"] = result.comparison.has_value();
    dict["why_not"] = result.why_not;
    dict["relative_tolerance"] = result.tolerance.relative;
    dict["absolute_tolerance"] = result.tolerance.absolute;
    if (result.comparison) {
      const Comparison& comparison = *result.comparison;
      dict["num_elements"] = comparison.num_elements;
      dict["num_wrong"] = comparison.num_wrong;
      dict["max_error"] = comparison.max_error;
      dict["allowed_error"] = comparison.worst_allowed;
      const bool has_worst = comparison.worst_index >= 0;
      dict["worst_index"] = has_worst ? coordinates(comparison.worst_index, result.shape) : std::string();
      dict["actual"] = has_worst ? format_element(comparison.worst_actual, result.dtype) : std::string();
      dict["expected"] = has_worst ? format_element(comparison.worst_expected, result.dtype) : std::string();
    }
    list.append(dict);
  }
  return list;
}

py::object memory_of(const std::optional<MemoryUsage>& usage) {
  if (!usage) return py::none();
  py::dict dict;
  dict["total_bytes"] = usage->total_bytes;
  dict["free_bytes"] = usage->free_bytes;
  dict["used_bytes"] = usage->used_bytes;
  dict["pool_reserved_bytes"] = usage->pool_reserved_bytes;
  dict["pool_used_bytes"] = usage->pool_used_bytes;
  return dict;
}

/// What the call returns: `given` where it was given outputs, else its changed inputs, else arrays of new memory.
py::list results_of(const BoundCall& call, const py::tuple& given, const DebugReport& report, Stream stream) {
  py::list results;
  if (report.results.empty()) return results;
  if (!given.empty()) return py::list(given);
  if (call.spec.outputs.empty()) {
    for (std::size_t i = 0; i < call.arrays.size(); ++i)
      if (input_spec(call.spec, i).mutated) results.append(call.objects()[i]);
    return results;
  }
  for (const Tensor& tensor : report.results) results.append(to_python(tensor, call.kind, stream));
  return results;
}

std::unique_ptr<DebugObject> debug(const std::string& op, const py::sequence& tensors, const py::dict& arguments,
                                   const py::object& out, const py::object& stream, const py::object& config,
                                   const std::optional<std::string>& tuning, bool overlap_previous) {
  const BoundCall call(op, tensors, arguments);
  std::vector<Tensor> inputs, outputs;
  for (std::size_t i = 0; i < call.arrays.size(); ++i) {
    if (call.arrays[i].read_only && !call.spec.inputs.empty() && input_spec(call.spec, i).mutated)
      throw_value_error(fmt::format("op '{}' changes {}, which is read-only; pass a writeable array", call.spec.name,
                                    input_spec(call.spec, i).name));
    inputs.push_back(call.arrays[i].tensor);
  }
  const bool is_list = PyList_Check(out.ptr()) || PyTuple_Check(out.ptr());
  const py::tuple given = out.is_none() ? py::tuple() : is_list ? py::tuple(out) : py::make_tuple(out);
  for (const py::handle array : given) {
    const ArrayArgument argument = array_argument(array, "out");
    if (argument.read_only)
      throw_value_error("out is read-only, so the result cannot be written to it; pass a writeable array");
    outputs.push_back(argument.tensor);
  }
  const std::optional<Config> chosen = optional_config_argument(config);
  DispatchOptions options;
  options.outputs = outputs;
  options.stream = call.stream(stream);
  if (chosen) options.config = &*chosen;
  if (tuning) options.tuning = parse_tuning_policy(*tuning);
  options.overlap_previous = overlap_previous;
  auto object = std::make_unique<DebugObject>();
  {
    const GilReleased released;
    object->report = debug_op(call.spec.name, inputs, call.attributes, options);
  }
  object->results = results_of(call, given, object->report, *options.stream);
  return object;
}

void bind_report(py::module_& module) {
  py::class_<DebugObject> type(module, "DebugReport",
                               "What kiln.debug_op found out. str() is a table of it. Each tensor is a dict with "
                               "name, layout, alignment_bytes and statistics before and after the call; each "
                               "comparison one with num_wrong, max_error, worst_index.");
  type.attr("__module__") = "kiln";
  type.def_property_readonly("op", [](const DebugObject& self) { return self.report.op; })
      .def_property_readonly(
          "attributes", [](const DebugObject& self) { return to_python(self.report.attributes); },
          "With their defaults.")
      .def_property_readonly("device", [](const DebugObject& self) { return to_string(self.report.device); })
      .def_property_readonly("inputs", [](const DebugObject& self) { return tensors_of(self.report.inputs); })
      .def_property_readonly("outputs", [](const DebugObject& self) { return tensors_of(self.report.outputs); })
      .def_property_readonly(
          "results", [](const DebugObject& self) { return self.results; },
          "A list of what the call returned; empty when it failed.")
      .def_property_readonly(
          "was_planned", [](const DebugObject& self) { return self.report.was_planned; },
          "This process had made such a call before.")
      .def_property_readonly(
          "plan",
          [](const DebugObject& self) {
            return self.report.plan ? py::cast(*self.report.plan) : py::object(py::none());
          },
          "kiln.PlanReport.")
      .def_property_readonly(
          "first_us", [](const DebugObject& self) { return self.report.first_us; },
          "The call itself: planning, allocation, kernels, and the wait for them.")
      .def_property_readonly(
          "warm_us", [](const DebugObject& self) { return self.report.warm_us; }, "The median of later calls.")
      .def_property_readonly("warm_calls", [](const DebugObject& self) { return self.report.warm_calls; })
      .def_property_readonly(
          "no_warm_time", [](const DebugObject& self) { return self.report.no_warm_time; },
          "Why warm_us is not there, where nothing failed.")
      .def_property_readonly(
          "comparisons", [](const DebugObject& self) { return comparisons_of(self.report.comparisons); },
          "Of each result with the op's reference.")
      .def_property_readonly("memory_before",
                             [](const DebugObject& self) { return memory_of(self.report.memory_before); })
      .def_property_readonly("memory_after",
                             [](const DebugObject& self) { return memory_of(self.report.memory_after); })
      .def_property_readonly(
          "error", [](const DebugObject& self) { return self.report.error; }, "What failed.")
      .def_property_readonly(
          "ok", [](const DebugObject& self) { return self.report.ok(); },
          "Nothing failed, and no comparison found a wrong element.")
      .def("__str__", [](const DebugObject& self) { return to_string(self.report); })
      .def("__repr__", [](const DebugObject& self) { return to_string(self.report); });
}

}  // namespace

void bind_debugging(py::module_& module) {
  bind_report(module);
  module.def("debug_op", &debug, py::arg("op"), py::arg("tensors"), py::arg("arguments"), py::kw_only(), py::arg("out"),
             py::arg("stream"), py::arg("config"), py::arg("tuning"), py::arg("overlap_previous"),
             "Runs a call and looks at everything around it.");
}

}  // namespace kiln::python
