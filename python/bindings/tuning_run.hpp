#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <stop_token>
#include <string>

#include "registry/tuning/op_tuning.hpp"

namespace kiln::python {

namespace py = pybind11;

/// How Python asks for a tuning, whatever is tuned.
struct TuningChoices {
  py::object configs;  ///< a list of configs, or None for the whole space
  double budget_s;
  std::string strategy;  ///< as in C++, but for "automatic"
  std::uint64_t seed;
  bool record;
  bool resume;
  py::object progress;  ///< called with a dict, or None
  py::object hung;      ///< called with a config that does not return and whether it is the default, or None
};

/// One tuning as Python runs it: progress and what hangs are called back, and what Python throws meanwhile, Ctrl-C
/// among it, ends the tuning in good order and comes out of `run`.
class TuningRun {
 public:
  /// UsageError for choices that are none.
  explicit TuningRun(const TuningChoices& choices);
  /// For the rest of what is to be said.
  TuneOptions& options() noexcept { return options_; }
  /// Calls `tune` without the GIL. Returns what was found as JSON, and as text for people.
  py::tuple run(const std::function<TuneReport(const TuneOptions&)>& tune);

 private:
  /// Runs `body` with the GIL.
  void guard(const std::function<void()>& body);
  void report_hung(const TuningEntry& entry) const;

  TuneOptions options_;
  py::object progress_, hung_;
  std::stop_source stop_;
  std::exception_ptr thrown_;
};

/// A list of dicts, or of texts, as configs. UsageError(type) for what is no list, else as config_argument.
std::vector<Config> configs_argument(py::handle object);

}  // namespace kiln::python
