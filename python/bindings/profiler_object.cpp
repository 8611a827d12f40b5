#include "python/bindings/profiler_object.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/attribute_dict.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gil.hpp"
#include "registry/profiling/profiler.hpp"

namespace kiln::python {
namespace {

/// A profiler that any thread may stop.
class ProfilerObject {
 public:
  explicit ProfilerObject(const ProfilerOptions& options) : profiler_(options) {}
  ~ProfilerObject() {
    if (!is_running_) return;
    std::optional<GilReleased> released;
    if (may_release_gil()) released.emplace();
    try {
      profiler_.stop();
    } catch (const Error&) {
      return;  // the device's failure meets whoever waits for its work
    }
  }
  ProfilerObject(const ProfilerObject&) = delete;
  ProfilerObject& operator=(const ProfilerObject&) = delete;

  bool is_running() {
    const GilReleased released;
    const std::lock_guard lock(mutex_);
    return is_running_;
  }
  void stop() {
    const GilReleased released;
    const std::lock_guard lock(mutex_);
    is_running_ = false;
    profiler_.stop();
  }
  ProfileReport report() {
    const GilReleased released;
    const std::lock_guard lock(mutex_);
    is_running_ = false;
    return profiler_.report();
  }
  void write_trace(const std::string& path) {
    const GilReleased released;
    const std::lock_guard lock(mutex_);
    profiler_.write_trace(path);
  }

 private:
  std::mutex mutex_;  ///< of what follows
  Profiler profiler_;
  bool is_running_ = true;
};

DeviceTimeSource device_time_source_of(const std::string& name) {
  if (name == "automatic") return DeviceTimeSource::automatic;
  if (name == "cupti") return DeviceTimeSource::cupti;
  if (name == "events") return DeviceTimeSource::events;
  throw_value_error(fmt::format("device_time_source='{}'; expected 'automatic', 'cupti' or 'events'", name));
}

/// What kiln.profile_region gives to `with`; may be entered again and within itself.
class RegionObject {
 public:
  explicit RegionObject(std::string name) : name_(std::move(name)) {}
  ~RegionObject() {
    // A region is bound to its thread, whose stack of them it must not touch from another.
    for (Entered& entered : entered_)
      if (entered.thread != std::this_thread::get_id()) static_cast<void>(entered.region.release());
  }
  RegionObject(const RegionObject&) = delete;
  RegionObject& operator=(const RegionObject&) = delete;

  void enter() { entered_.push_back({std::this_thread::get_id(), std::make_unique<ProfilerRegion>(name_)}); }
  void exit(py::handle, py::handle, py::handle) {
    for (auto entered = entered_.rbegin(); entered != entered_.rend(); ++entered)
      if (entered->thread == std::this_thread::get_id()) {
        entered_.erase(std::next(entered).base());
        return;
      }
    throw_value_error(fmt::format("region \"{}\" is left on the thread that entered it, and this one has not", name_));
  }

 private:
  struct Entered {
    std::thread::id thread;
    std::unique_ptr<ProfilerRegion> region;
  };
  std::string name_;
  std::vector<Entered> entered_;
};

template <typename Item>
py::list list_of(const std::vector<Item>& items) {
  py::list list;
  for (const Item& item : items) list.append(py::cast(item));
  return list;
}

void bind_distribution(py::module_& module) {
  py::class_<TimeDistribution> type(module, "TimeDistribution", "How long something took, in microseconds.");
  type.def_readonly("count", &TimeDistribution::count)
      .def_readonly("total_us", &TimeDistribution::total_us)
      .def_readonly("mean_us", &TimeDistribution::mean_us)
      .def_readonly("min_us", &TimeDistribution::min_us)
      .def_readonly("max_us", &TimeDistribution::max_us)
      .def_readonly("p50_us", &TimeDistribution::p50_us)
      .def_readonly("p99_us", &TimeDistribution::p99_us);
  define_dict(type, {"count", "total_us", "mean_us", "min_us", "max_us", "p50_us", "p99_us"});
}

void bind_rows(py::module_& module) {
  py::class_<ProfileRow> row(module, "ProfileRow",
                             "Calls of one op with the same dtypes, shapes and config on one device.");
  row.def_readonly("op", &ProfileRow::op)
      .def_readonly("dtypes", &ProfileRow::dtypes, "\"f32\" where all are the same, else \"bf16, i64 -> bf16\".")
      .def_readonly("shapes", &ProfileRow::shapes, "\"4x1024, 1024 -> 4x1024\".")
      .def_readonly("config", &ProfileRow::config)
      .def_readonly("variant", &ProfileRow::variant)
      .def_property_readonly("device", [](const ProfileRow& self) { return to_string(self.device); })
      .def_readonly("count", &ProfileRow::count)
      .def_readonly("captured", &ProfileRow::captured, "Of `count`: recorded into a graph, where nothing ran.")
      .def_readonly("device_time", &ProfileRow::device_time, "kiln.TimeDistribution of those whose time is known.")
      .def_readonly("host_time", &ProfileRow::host_time,
                    "The rest of the call on the host, without planning, compiling and tuning.")
      .def_readonly("bytes", &ProfileRow::bytes, "Of one call, by the op's spec.")
      .def_readonly("flops", &ProfileRow::flops)
      .def_readonly("gb_s", &ProfileRow::gb_s, "Achieved; 0 where the spec or the time says nothing.")
      .def_readonly("tflop_s", &ProfileRow::tflop_s)
      .def_readonly("roofline_share", &ProfileRow::roofline_share,
                    "The shortest possible time over the mean; 0 where no peak is known.");
  define_dict(row, {"op", "dtypes", "shapes", "config", "variant", "device", "count", "captured", "device_time",
                    "host_time", "bytes", "flops", "gb_s", "tflop_s", "roofline_share"});
  py::class_<ProfileTotal> total(module, "ProfileTotal", "All calls of one op, and what was done to make them ready.");
  total.def_readonly("op", &ProfileTotal::op)
      .def_readonly("count", &ProfileTotal::count)
      .def_readonly("device_us", &ProfileTotal::device_us)
      .def_readonly("host_us", &ProfileTotal::host_us)
      .def_readonly("plan_us", &ProfileTotal::plan_us)
      .def_readonly("compile_us", &ProfileTotal::compile_us)
      .def_readonly("load_us", &ProfileTotal::load_us)
      .def_readonly("tune_us", &ProfileTotal::tune_us);
  define_dict(total, {"op", "count", "device_us", "host_us", "plan_us", "compile_us", "load_us", "tune_us"});
  py::class_<ProfileRegionRow> region(module, "ProfileRegionRow", "A region of kiln.profile_region.");
  region.def_readonly("path", &ProfileRegionRow::path, "\"decode/attention\".")
      .def_readonly("time", &ProfileRegionRow::time)
      .def_readonly("calls", &ProfileRegionRow::calls, "Inside it and its inner regions.")
      .def_readonly("device_us", &ProfileRegionRow::device_us, "Of those.");
  define_dict(region, {"path", "time", "calls", "device_us"});
  py::class_<ProfileMemoryRow> memory(module, "ProfileMemoryRow", "Copies of one kind, or sets, that a GPU made.");
  memory.def_readonly("name", &ProfileMemoryRow::name, "\"copy pinned to device\", \"set\".")
      .def_property_readonly("device", [](const ProfileMemoryRow& self) { return to_string(self.device); })
      .def_readonly("bytes", &ProfileMemoryRow::bytes, "Of all.")
      .def_readonly("time", &ProfileMemoryRow::time, "kiln.TimeDistribution of each.")
      .def_readonly("gb_s", &ProfileMemoryRow::gb_s);
  define_dict(memory, {"name", "device", "bytes", "time", "gb_s"});
}

void bind_report(py::module_& module) {
  py::class_<ProfileReport> report(module, "ProfileReport", "What a profiler recorded. str() is its tables.");
  report.attr("__module__") = "kiln";
  report
      .def_property_readonly(
          "rows", [](const ProfileReport& self) { return list_of(self.rows); },
          "A kiln.ProfileRow each, most device time first.")
      .def_property_readonly(
          "ops", [](const ProfileReport& self) { return list_of(self.ops); },
          "A kiln.ProfileTotal each, most device time first.")
      .def_property_readonly(
          "regions", [](const ProfileReport& self) { return list_of(self.regions); },
          "A kiln.ProfileRegionRow each, in order of first use.")
      .def_property_readonly(
          "memory", [](const ProfileReport& self) { return list_of(self.memory); },
          "A kiln.ProfileMemoryRow for each kind of copy and for sets, most time first; where CUPTI times GPUs.")
      .def_readonly("graph_device_time", &ProfileReport::graph_device_time, "Of launches of graphs.")
      .def_readonly("graph_host_time", &ProfileReport::graph_host_time)
      .def_readonly("elapsed_us", &ProfileReport::elapsed_us, "From start to stop.")
      .def_readonly("threads", &ProfileReport::threads)
      .def_readonly("plan_us", &ProfileReport::plan_us)
      .def_readonly("compile_us", &ProfileReport::compile_us)
      .def_readonly("load_us", &ProfileReport::load_us)
      .def_readonly("tune_us", &ProfileReport::tune_us)
      .def_property_readonly(
          "devices_without_peak",
          [](const ProfileReport& self) {
            py::list list;
            for (const Device device : self.devices_without_peak) list.append(to_string(device));
            return list;
          },
          "Of rows whose share of the roofline is not known; kiln.measured_peak before the report helps.")
      .def_readonly("device_timing", &ProfileReport::device_timing,
                    "How GPUs were timed: \"by CUPTI\", or \"by events\" and why; empty where none was met.")
      .def_readonly("untimed", &ProfileReport::untimed, "Calls and graphs on a GPU whose time got lost.")
      .def_readonly("failed", &ProfileReport::failed, "Calls that raised; they are in no row.")
      .def_readonly("dropped", &ProfileReport::dropped, "Records beyond max_records.")
      .def("__str__", [](const ProfileReport& self) { return to_string(self); })
      .def("__repr__", [](const ProfileReport& self) { return to_string(self); });
}

}  // namespace

void bind_profiler(py::module_& module) {
  bind_distribution(module);
  bind_rows(module);
  bind_report(module);
  py::class_<ProfilerObject> type(
      module, "Profiler",
      "Profiler(*, nvtx=False, device_time=True, max_records=1000000, device_time_source='automatic')\n\nRecords what "
      "all threads of the process dispatch, from here to stop(). One at a time; kiln.profile is one for a with block.",
      py::is_final());
  type.attr("__module__") = "kiln";
  construct_with(
      type, py::cpp_function(
                [](bool nvtx, bool device_time, std::size_t max_records, const std::string& source) {
                  return std::make_unique<ProfilerObject>(
                      ProfilerOptions{nvtx, device_time, max_records, device_time_source_of(source)});
                },
                py::name("Profiler"), py::kw_only(), py::arg("nvtx") = ProfilerOptions().nvtx,
                py::arg("device_time") = ProfilerOptions().device_time,
                py::arg("max_records") = ProfilerOptions().max_records, py::arg("device_time_source") = "automatic"));
  type.def_property_readonly("is_running", &ProfilerObject::is_running)
      .def("stop", &ProfilerObject::stop,
           "Ends recording and waits for what was recorded on GPUs. ValueError the second time.")
      .def(
          "report", &ProfilerObject::report,
          "The kiln.ProfileReport; stops first where it runs. The roofline is the device's stated bandwidth, else what "
          "kiln.measured_peak has found.")
      .def("write_trace", &ProfilerObject::write_trace, py::arg("path"),
           "Writes what was recorded, once stopped, for Perfetto or chrome://tracing.");
  py::class_<RegionObject> region(module, "ProfileRegion", "What kiln.profile_region gives to `with`.", py::is_final());
  region.attr("__module__") = "kiln";
  region.def("__enter__", &RegionObject::enter)
      .def("__exit__", &RegionObject::exit, py::arg("type"), py::arg("value"), py::arg("traceback"));
  module.def(
      "profile_region", [](std::string name) { return std::make_unique<RegionObject>(std::move(name)); },
      py::arg("name"),
      "with kiln.profile_region(\"decode\"): names the part of the program that the block is, on its thread. Regions "
      "nest. Nothing while no profiler runs.");
}

}  // namespace kiln::python
