#include "python/bindings/tuning_history.hpp"

#include <pybind11/stl.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "autotune/database.hpp"
#include "python/bindings/bound_call.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/tuned_config.hpp"

namespace kiln::python {
namespace {

/// None where there were too few samples to tell.
py::object to_python(const Interval& interval) {
  if (interval.low <= 0 || !std::isfinite(interval.high)) return py::none();
  return py::make_tuple(interval.low, interval.high);
}

py::dict to_python(const CandidateEvidence& tried) {
  py::dict dict;
  dict["config"] = python::to_python(tried.config);
  dict["outcome"] = std::string(to_string(tried.outcome));
  dict["reason"] = tried.reason;
  dict["samples"] = tried.samples;
  dict["median_us"] = tried.samples > 0 ? py::object(py::float_(tried.median_us)) : py::none();
  dict["interval_us"] = to_python(tried.interval_us);
  return dict;
}

py::dict to_python(const PastMeasurement& past) {
  py::dict dict;
  dict["date"] = format_date(past.date_unix_s);
  dict["config"] = python::to_python(past.config);
  dict["median_us"] = past.median_us;
  dict["interval_us"] = to_python(past.interval_us);
  dict["measuring"] = to_string(past.policy);
  dict["driver"] = past.driver;
  return dict;
}

template <typename Item>
py::list to_python(const std::vector<Item>& items) {
  py::list list;
  for (const Item& item : items) list.append(to_python(item));
  return list;
}

py::dict to_python(const TuningEntry& entry) {
  py::dict dict;
  dict["key"] = hash_of(entry.key).hex();
  dict["op"] = entry.key.op;
  dict["variant"] = entry.key.variant;
  dict["dtypes"] = entry.key.dtypes;
  dict["shapes"] = to_string(entry.key.shapes);
  dict["attributes"] = entry.key.attributes;
  dict["device"] = entry.key.device_model;
  dict["processors"] = entry.key.processors;
  dict["config"] = python::to_python(entry.config);
  dict["default_config"] = python::to_python(entry.default_config);
  dict["relative"] = to_python(entry.relative);
  dict["measuring"] = to_string(entry.policy);
  dict["strategy"] = entry.strategy;
  dict["complete"] = entry.complete;
  dict["driver"] = entry.driver;
  dict["compiler"] = entry.compiler;
  dict["date"] = format_date(entry.date_unix_s);
  dict["tried"] = to_python(entry.tried);
  dict["history"] = to_python(entry.history);
  return dict;
}

/// Of all devices; those of one op unless `op` is empty.
py::list entries_of(const std::string& op) {
  std::vector<TuningDatabase::DeviceFile> files;
  {
    const GilReleased released;
    files = TuningDatabase::process().list();
  }
  py::list entries;
  for (const TuningDatabase::DeviceFile& file : files)
    for (const auto& entry : file.entries)
      if (op.empty() || entry->key.op == op) entries.append(to_python(*entry));
  return entries;
}

/// The one that such a call takes its config from, or None.
py::object entry_of(const std::string& op, const py::sequence& tensors, const py::dict& arguments) {
  const BoundCall bound(op, tensors, arguments, /*metas_allowed=*/true);
  std::shared_ptr<const TuningEntry> entry;
  {
    const GilReleased released;
    const Call call = bound.on(Stream::default_of(bound.device()));
    const Target target = target_of(call.device);
    entry = TuningDatabase::process().find(tuning_key(call, *choose(call, target, nullptr).variant, target));
  }
  return entry == nullptr ? py::object(py::none()) : to_python(*entry);
}

}  // namespace

void bind_tuning_history(py::module_& module) {
  module.def("tuning_entries", entries_of, py::arg("op"), "What the tuning database has of an op; empty: of all.");
  module.def("tuning_entry_of", entry_of, py::arg("op"), py::arg("tensors"), py::arg("arguments"),
             "What it has of exactly this call; None where it has nothing.");
}

}  // namespace kiln::python
