#include "python/bindings/benchmark.hpp"

#include <pybind11/stl.h>

#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotune/sweep_budget.hpp"
#include "autotune/turns.hpp"
#include "python/bindings/bound_call.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/measuring.hpp"
#include "python/bindings/stream.hpp"
#include "registry/inspection/benchmarked_call.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event_timer.hpp"

namespace kiln::python {
namespace {

/// Adds contenders and times them in turns. All of them run on one device, in the order of one stream.
class Benchmark {
 public:
  Benchmark(bool graph, std::optional<bool> flush_l2, py::object stream)
      : graph_(graph), flush_l2_(flush_l2), stream_(std::move(stream)) {}

  /// An op as a dispatch runs it, with this config or what `tuning` says.
  void add_op(const std::string& op, const py::sequence& tensors, const py::dict& arguments, py::handle config,
              const std::optional<std::string>& tuning, bool overlap_previous) {
    const BoundCall& call = calls_.emplace_back(op, tensors, arguments);
    place(call.device(), call.kind);
    const std::optional<Config> given = optional_config_argument(config);
    DispatchOptions options;
    if (given) options.config = &*given;
    if (tuning) options.tuning = parse_tuning_policy(*tuning);
    options.overlap_previous = overlap_previous;
    const MeasuringPolicy policy = where_->policy;
    const BenchmarkedCall* timed = nullptr;
    {
      const GilReleased released;
      timed = &ops_.emplace_back(call.on(where_->stream), options, policy);
    }
    contenders_.push_back({[timed](int count) {
      const GilReleased released;
      return timed->samples_us(count);
    }});
    py::dict& row = rows_.emplace_back();
    row["variant"] = timed->report().variant;
    row["config"] = python::to_python(timed->report().config);
    row["config_source"] = timed->report().config_source;
    cost_ = timed->report().cost;
    if (timed->skipped()) row["skipped_share"] = timed->skipped()->share();
  }

  /// An op's definition, on one thread of the CPU.
  void add_reference(const std::string& op, const py::sequence& tensors, const py::dict& arguments) {
    const BoundCall& call = calls_.emplace_back(op, tensors, arguments);
    place(call.device(), call.kind);
    const BenchmarkedReference* timed = nullptr;
    {
      const GilReleased released;
      timed = &references_.emplace_back(call.on(Stream::default_of(call.device())));
    }
    contenders_.push_back({[timed](int count) {
                             const GilReleased released;
                             return timed->samples_us(count);
                           },
                           /*samples_per_turn=*/1});
    rows_.emplace_back();
  }

  /// A Python callable without arguments, which enqueues its work on the stream; torch's current one on a GPU. The GIL
  /// is held while it is timed.
  void add_callable(const py::object& callable, const std::string& device) {
    place(parse_device(device), library_of_streams());
    const CallTiming& timed =
        callables_.emplace_back([callable](Stream) { callable(); }, where_->stream, where_->policy);
    contenders_.push_back({[&timed](int count) { return timed.samples_us(count); }});
    rows_.emplace_back();
  }

  py::dict run(int samples, double budget_s) {
    const auto check_signals = [] {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    };
    const std::vector<ContenderTimes> times =
        take_turns(contenders_, {.samples = samples, .budget_s = budget_s, .between_turns = check_signals});
    py::dict result;
    result["device"] = to_string(where_->stream.device);
    const DeviceInfo& info = device_info(where_->stream.device);
    result["device_name"] = info.name;
    result["peak_gb_s"] = info.peak_bandwidth_gb_s;
    result["policy"] = to_string(where_->policy);
    result["bytes"] = cost_.bytes;
    result["flops"] = cost_.flops;
    py::list contenders;
    for (std::size_t i = 0; i < times.size(); ++i) contenders.append(with_times(rows_[i], times[i]));
    result["contenders"] = contenders;
    if (times.size() > 1) {
      const SampleSet ratios = speedups(times[0], times[1]);
      result["speedup"] = ratios.median();
      result["speedup_interval"] = interval_of(ratios);
    }
    return result;
  }

 private:
  struct Where {
    Stream stream;
    MeasuringPolicy policy;
  };

  /// The first contender says where all of them run.
  void place(Device device, ArrayKind kind) {
    if (where_) return;
    device_info(device);  // refuses a device that is not there
    where_ = Where{stream_argument(stream_, device, kind), measuring_argument(graph_, flush_l2_, device)};
  }

  /// None where there are too few samples to tell.
  static py::object interval_of(const SampleSet& samples) {
    if (samples.size() < kFewestForInterval) return py::none();
    const Interval interval = samples.median_interval();
    return py::make_tuple(interval.low, interval.high);
  }

  static py::dict with_times(py::dict row, const ContenderTimes& times) {
    const SampleSet samples(times.samples_us);
    const TimingSummary summary = summarize(times.samples_us);
    row["samples_us"] = times.samples_us;
    row["median_us"] = samples.median();
    row["interval_us"] = interval_of(samples);
    row["p10_us"] = summary.p10_us;
    row["p90_us"] = summary.p90_us;
    row["min_us"] = summary.min_us;
    return row;
  }

  bool graph_;
  std::optional<bool> flush_l2_;
  py::object stream_;
  std::optional<Where> where_;
  Cost cost_;
  std::deque<BoundCall> calls_;
  std::deque<BenchmarkedCall> ops_;
  std::deque<BenchmarkedReference> references_;
  std::deque<CallTiming> callables_;
  std::vector<Contender> contenders_;
  std::vector<py::dict> rows_;  ///< of contenders_
};

}  // namespace

void bind_benchmark(py::module_& module) {
  py::class_<Benchmark> type(module, "BenchmarkRun", "Contenders that are timed in turns.", py::is_final());
  construct_with(
      type, py::cpp_function(
                [](bool graph, std::optional<bool> flush_l2, py::object stream) {
                  return std::make_unique<Benchmark>(graph, flush_l2, std::move(stream));
                },
                py::name("BenchmarkRun"), py::kw_only(), py::arg("graph"), py::arg("flush_l2"), py::arg("stream")));
  type.def("add_op", &Benchmark::add_op, py::arg("op"), py::arg("tensors"), py::arg("arguments"), py::arg("config"),
           py::arg("tuning"), py::arg("overlap_previous"))
      .def("add_reference", &Benchmark::add_reference, py::arg("op"), py::arg("tensors"), py::arg("arguments"))
      .def("add_callable", &Benchmark::add_callable, py::arg("callable"), py::arg("device"))
      .def("run", &Benchmark::run, py::arg("samples"), py::arg("budget_s"));
  py::class_<SweepBudget> budget(module, "SweepBudget", "Ends a sweep before a size that takes too long.",
                                 py::is_final());
  construct_with(budget,
                 py::cpp_function(
                     [](std::optional<double> total_s, double budget_s, std::size_t sizes) {
                       return std::make_unique<SweepBudget>(total_s.value_or(usual_sweep_budget_s(budget_s, sizes)));
                     },
                     py::name("SweepBudget"), py::arg("total_s"), py::arg("budget_s"), py::arg("sizes")));
  budget.def("begin", &SweepBudget::begin, py::arg("size")).def("end", &SweepBudget::end, py::arg("call_us"));
}

}  // namespace kiln::python
