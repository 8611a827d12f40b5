#include "python/bindings/tuning.hpp"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/errors.hpp"
#include "python/bindings/bound_call.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/measuring.hpp"
#include "registry/plan/tuning_policy.hpp"
#include "registry/tuning/tuning.hpp"
#include "registry/tuning/tuning_report.hpp"

namespace kiln::python {
namespace {

const char* phase_name(Search::Phase phase) {
  switch (phase) {
    case Search::Phase::warming_up:
      return "warming up";
    case Search::Phase::screening:
      return "screening";
    case Search::Phase::playoff:
      return "playoff";
    case Search::Phase::finished:
      break;
  }
  return "finished";
}

py::dict to_python(const TuningProgress& progress) {
  py::dict dict;
  dict["phase"] = phase_name(progress.phase);
  dict["candidates"] = progress.candidates;
  dict["tried"] = progress.tried;
  dict["failed"] = progress.failed;
  dict["default_us"] = progress.default_us;
  dict["best_us"] = progress.best_us;
  dict["best"] = python::to_python(progress.best);
  dict["elapsed_s"] = progress.elapsed_s;
  dict["budget_s"] = progress.budget_s;
  return dict;
}

/// Keeps what Python throws in the middle of a tuning, which then stops in good order and keeps what it found.
class Interruption {
 public:
  std::stop_token token() const { return stop_.get_token(); }
  /// Runs `body` with the GIL.
  void guard(const std::function<void()>& body) {
    const GilAcquired gil;
    try {
      body();
    } catch (...) {
      if (!thrown_) thrown_ = std::current_exception();
      stop_.request_stop();
    }
  }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::stop_source stop_;
  std::exception_ptr thrown_;
};

/// On the watchdog's thread, while the tuning is stuck.
void report_hung(const TuningEntry& entry, const py::object& hung) {
  const GilAcquired gil;
  try {
    for (const CandidateEvidence& evidence : entry.tried)
      if (evidence.outcome == Outcome::hung && !hung.is_none()) hung(python::to_python(evidence.config));
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("kiln.autotune");
  }
}

py::tuple tune(const std::string& op, const py::sequence& tensors, const py::dict& arguments, double budget_s,
               const std::string& strategy, std::uint64_t seed, const py::object& measuring, bool record, bool resume,
               const py::object& stream, const py::object& progress, const py::object& hung) {
  const BoundCall call(op, tensors, arguments);
  Interruption interruption;
  TuneOptions options;
  const Stream where = call.stream(stream);
  options.strategy = parse_strategy(strategy == "automatic" ? "auto" : strategy);
  options.seed = seed;
  options.budget_s = budget_s;
  options.measuring = measuring_argument(measuring, call.device());
  options.record = record;
  options.resume = resume;
  options.stop = interruption.token();
  options.progress = [&](const TuningProgress& state) {
    interruption.guard([&] {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!progress.is_none()) progress(to_python(state));
    });
  };
  options.hung = [&](const TuningEntry& entry) { report_hung(entry, hung); };
  std::optional<TuneReport> report;
  try {
    const GilReleased released;
    report = tune_op(call.on(where), options);
  } catch (...) {
    interruption.rethrow();
    throw;
  }
  interruption.rethrow();
  return py::make_tuple(tuning_json(*report), tuning_text(*report));
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
             py::arg("budget_s"), py::arg("strategy"), py::arg("seed"), py::arg("measuring"), py::arg("record"),
             py::arg("resume"), py::arg("stream"), py::arg("progress"), py::arg("hung"),
             "Tunes a call; returns what was found as JSON, and as text for people.");
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
