#include "python/bindings/tuning.hpp"

#include <functional>
#include <string>

#include "python/bindings/bound_call.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/measuring.hpp"
#include "python/bindings/python_function.hpp"
#include "python/bindings/stream.hpp"
#include "python/bindings/tuning_run.hpp"
#include "registry/plan/tuning_policy.hpp"
#include "registry/tuning/tuning.hpp"

namespace kiln::python {
namespace {

py::tuple tune(const std::string& op, const py::sequence& tensors, const py::dict& arguments, const py::object& configs,
               double budget_s, const std::string& strategy, std::uint64_t seed, const py::object& measuring,
               bool record, bool resume, const py::object& stream, const py::object& progress, const py::object& hung) {
  const BoundCall call(op, tensors, arguments);
  TuningRun run({configs, budget_s, strategy, seed, record, resume, progress, hung});
  const Stream where = call.stream(stream);
  run.options().measuring = measuring_argument(measuring, call.device());
  return run.run([&](const TuneOptions& options) { return tune_op(call.on(where), options); });
}

py::tuple tune_python_function(const PythonFunction& function, const py::object& configs, double budget_s,
                               const std::string& strategy, std::uint64_t seed, const py::object& measuring,
                               bool record, bool resume, const py::object& stream, const py::object& progress,
                               const py::object& hung) {
  TuningRun run({configs, budget_s, strategy, seed, record, resume, progress, hung});
  const Stream where = stream_argument(stream, function.device(), library_of_streams());
  run.options().measuring = measuring_argument(measuring, function.device());
  const TunedFunction tuned = function.with(run.options().configs);
  return run.run([&](const TuneOptions& options) { return tune_function(tuned, where, options); });
}

py::object tuned_config(const PythonFunction& function, const py::object& configs) {
  const auto entry = tuned_entry(function.with(configs_argument(configs)), function.device());
  return entry == nullptr ? py::object(py::none()) : to_python(entry->config);
}

/// Called by dispatching threads, without the GIL.
std::function<void(const std::string&)> log_to(const py::object& log) {
  if (log.is_none()) return {};
  return [log = share(log)](const std::string& line) {
    if (!Py_IsInitialized()) return;
    const GilAcquired gil;
    try {
      py::reinterpret_borrow<py::object>(static_cast<PyObject*>(log.get()))(line);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("kiln.set_tuning_log");
    }
  };
}

}  // namespace

void bind_tuning(py::module_& module) {
  module.def("tune_op", tune, py::arg("op"), py::arg("tensors"), py::arg("arguments"), py::kw_only(),
             py::arg("configs"), py::arg("budget_s"), py::arg("strategy"), py::arg("seed"), py::arg("measuring"),
             py::arg("record"), py::arg("resume"), py::arg("stream"), py::arg("progress"), py::arg("hung"),
             "Tunes a call; returns what was found as JSON, and as text for people.");
  bind_python_function(module);
  module.def("tune_function", tune_python_function, py::arg("function"), py::kw_only(), py::arg("configs"),
             py::arg("budget_s"), py::arg("strategy"), py::arg("seed"), py::arg("measuring"), py::arg("record"),
             py::arg("resume"), py::arg("stream"), py::arg("progress"), py::arg("hung"),
             "Tunes a call of a function of Python's; returns the same.");
  module.def("tuned_config", tuned_config, py::arg("function"), py::arg("configs"),
             "The config that was found for such a call; None where none was.");
  module.def(
      "tuning_policy", [] { return std::string(to_string(tuning_policy())); },
      "Where configs come from that are not given with a call: off, use, nearest or first_use.");
  module.def(
      "set_tuning_policy", [](const std::string& policy) { set_tuning_policy(parse_tuning_policy(policy)); },
      py::arg("policy"), "Sets it for the whole process.");
  module.def(
      "set_tuning_log", [](const py::object& log) { set_tuning_log(log_to(log)); }, py::arg("log"),
      "Has `log` called with a line for each plan whose config was not the obvious one; None: nobody listens.");
}

}  // namespace kiln::python
