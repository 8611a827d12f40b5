#include "python/bindings/tuning_run.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "registry/tuning/listed_configs.hpp"
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

}  // namespace

std::vector<Config> configs_argument(py::handle object) {
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr()))
    throw_type_error(fmt::format("configs: expected a list of dicts like {{'BLOCK_SIZE': 1024}}, got {}",
                                 Py_TYPE(object.ptr())->tp_name));
  std::vector<Config> configs;
  for (const py::handle config : py::reinterpret_borrow<py::sequence>(object))
    configs.push_back(config_argument(config));
  return configs;
}

TuningRun::TuningRun(const TuningChoices& choices) : progress_(choices.progress), hung_(choices.hung) {
  if (!choices.configs.is_none()) {
    options_.configs = configs_argument(choices.configs);
    detail::check_configs(options_.configs);
  }
  options_.strategy = parse_strategy(choices.strategy == "automatic" ? "auto" : choices.strategy);
  options_.seed = choices.seed;
  options_.budget_s = choices.budget_s;
  options_.record = choices.record;
  options_.resume = choices.resume;
  options_.stop = stop_.get_token();
  options_.progress = [this](const TuningProgress& state) {
    guard([&] {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!progress_.is_none()) progress_(to_python(state));
    });
  };
  options_.hung = [this](const TuningEntry& entry) { report_hung(entry); };
}

py::tuple TuningRun::run(const std::function<TuneReport(const TuneOptions&)>& tune) {
  std::optional<TuneReport> report;
  try {
    const GilReleased released;
    report = tune(options_);
  } catch (...) {
    if (thrown_) std::rethrow_exception(thrown_);
    throw;
  }
  if (thrown_) std::rethrow_exception(thrown_);
  return py::make_tuple(tuning_json(*report), tuning_text(*report));
}

void TuningRun::guard(const std::function<void()>& body) {
  const GilAcquired gil;
  try {
    body();
  } catch (...) {
    if (!thrown_) thrown_ = std::current_exception();
    stop_.request_stop();
  }
}

// On the watchdog's thread, while the tuning is stuck.
void TuningRun::report_hung(const TuningEntry& entry) const {
  const GilAcquired gil;
  try {
    for (const CandidateEvidence& evidence : entry.tried)
      if (evidence.outcome == Outcome::hung && !hung_.is_none())
        hung_(python::to_python(evidence.config), evidence.config == entry.default_config);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("kiln.autotune");
  }
}

}  // namespace kiln::python
