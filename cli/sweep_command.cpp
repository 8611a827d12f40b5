#include "cli/sweep_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "autotune/sweep_budget.hpp"
#include "autotune/turns.hpp"
#include "cli/attribute_text.hpp"
#include "cli/end_request.hpp"
#include "cli/measuring.hpp"
#include "cli/plot.hpp"
#include "cli/progress_line.hpp"
#include "cli/random_call.hpp"
#include "cli/standard_streams.hpp"
#include "cli/sweep_pattern.hpp"
#include "cli/sweep_range.hpp"
#include "cli/sweep_report.hpp"
#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "registry/inspection/benchmarked_call.hpp"
#include "registry/inspection/inspection.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/registry.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory_usage.hpp"

namespace kiln::cli {
namespace {

constexpr const char* kUsualBudget = "500ms";
constexpr std::int64_t kUsualLowBytes = std::int64_t{1} << 10;
constexpr std::int64_t kUsualLeastHighBytes = std::int64_t{256} << 20;
constexpr std::int64_t kUsualCacheMultiple = 4;
/// Of the memory that is free; the rest is for what else the process and others do meanwhile.
constexpr double kShareOfFree = 0.8;

/// A call at one size, before any memory is taken.
struct SizedCall {
  std::vector<TensorMeta> inputs;
  Attributes attributes;
  std::vector<std::optional<TensorView>> views;  ///< of the inputs, which say where they lie
  Call call;
  double input_bytes = 0;
  double data_bytes = 0;    ///< inputs and outputs
  double needed_bytes = 0;  ///< and copies of what the op changes
};

double size_bytes(const TensorMeta& meta) {
  return static_cast<double>(num_elements(meta.shape)) * static_cast<double>(itemsize_bytes(meta.dtype));
}

class Sweep {
 public:
  explicit Sweep(const BenchOptions& options)
      : options_(options),
        spec_(Registry::process().get(options.call.op)),
        device_(chosen_device(options.device)),
        stream_(Stream::default_of(device_)),
        policy_(measuring_policy(options.measure, options.l2, device_)),
        budget_s_(parse_budget_s(options.budget.empty() ? kUsualBudget : options.budget)),
        range_(options.sweep.empty() ? usual_range() : parse_sweep_range(options.sweep)),
        pattern_(sweep_pattern(spec_, options.call, range_.variable)),
        values_(sweep_values(range_, [this](std::int64_t value) { return sized_call(value).data_bytes; })) {
    sweep_budget_s_ = options.sweep_budget.empty() ? usual_sweep_budget_s(budget_s_, values_.size())
                                                   : parse_budget_s(options.sweep_budget, "--sweep-budget");
    if (!options.config.empty()) config_ = parse_config(options.config);
    check_calls();
  }

  /// As far as it comes before an EndRequest.
  SweepReport run() {
    ProgressLine line;
    line.show(0, "measuring the memory's peak");
    SweepReport report;
    report.op = spec_.name;
    report.variable = pattern_.variable;
    report.pattern = to_string(pattern_);
    report.device = to_string(device_);
    report.device_name = device_info(device_).name;
    report.policy = to_string(policy_);
    report.peak = &measured_peak(device_);
    SweepBudget budget(sweep_budget_s_);
    for (std::size_t i = 0; i < values_.size() && report.ended.empty(); ++i) {
      if (EndRequest::is_made()) {
        report.ended = fmt::format("interrupted before {}={}", pattern_.variable, values_[i]);
        break;
      }
      line.show(static_cast<double>(i + 1) / static_cast<double>(values_.size() + 1),
                fmt::format("{}={}", pattern_.variable, values_[i]));
      try {
        const SizedCall call = sized_call(values_[i]);
        report.ended = memory_problem(call);
        if (const std::string too_long = budget.begin(static_cast<double>(values_[i])); !too_long.empty())
          report.ended = fmt::format("{}={}: {}; --sweep-budget gives more", pattern_.variable, values_[i], too_long);
        if (!report.ended.empty()) break;
        report.points.push_back(measure(values_[i], call));
        budget.end(report.points.back().median_us);
      } catch (const Error& error) {  // memory that somebody else took meanwhile, a kernel that does not compile
        if (report.points.empty()) throw;
        report.ended = fmt::format("{}={}: {}", pattern_.variable, values_[i], error.what());
      }
    }
    if (report.points.empty() && EndRequest::is_made()) return report;
    if (report.points.empty()) throw_value_error(fmt::format("--sweep: {}", report.ended));
    const SweepPoint& largest = report.points.back();
    if (largest.flops > 2 * largest.bytes && !EndRequest::is_made()) {
      line.show(1, "measuring the peak of matmul");
      report.matmul_peak = matmul_peak();
    }
    return report;
  }

 private:
  SweepRange usual_range() const {
    return {{}, kUsualLowBytes, std::max(kUsualLeastHighBytes, kUsualCacheMultiple * last_level_cache_bytes(device_))};
  }

  /// What is wrong with the command line is found before anything is measured.
  void check_calls() const {
    const SizedCall smallest = sized_call(values_.front());
    inspect_call(smallest.call, target_of(device_), config_ ? &*config_ : nullptr);
    if (const std::string problem = memory_problem(smallest); !problem.empty())
      throw_value_error(fmt::format("--sweep: {}", problem));
    for (const std::int64_t value : values_) sized_call(value);
  }

  SizedCall sized_call(std::int64_t value) const {
    const CallText text = pattern_.at(value);
    SizedCall call;
    call.attributes = parse_attributes(spec_, text.attributes);
    call.inputs = input_metas(spec_, text, call.attributes);
    call.views = call_views(spec_, text, call.inputs, device_);
    call.call = validated_call(spec_, call.views, call.attributes, {.seen_on = device_});
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const double bytes = size_bytes(call.inputs[i]);
      call.input_bytes += bytes;
      if (input_spec(spec_, i).mutated) call.needed_bytes += bytes;
    }
    const double addressed_bytes = size_of_addressed(call.call);
    call.needed_bytes += addressed_bytes;
    call.data_bytes = call.input_bytes + addressed_bytes;
    for (const TensorMeta& output : call.call.metas) call.data_bytes += size_bytes(output);
    call.needed_bytes += call.data_bytes;
    return call;
  }

  /// Of what lies at the addresses among the inputs.
  static double size_of_addressed(const Call& call) {
    double bytes = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      if (const auto& points_to = call.input_spec(i).points_to) {
        const MemoryExtent extent = memory_extent(points_to(call.seen_by_spec()));
        bytes +=
            static_cast<double>(call.inputs[i].numel()) * static_cast<double>(extent.end_bytes - extent.begin_bytes);
      }
    return bytes;
  }

  /// Why a call does not fit; empty when it does.
  std::string memory_problem(const SizedCall& call) const {
    const auto problem_on = [&](Device device, double needed_bytes) -> std::string {
      const std::int64_t free_bytes = memory_usage(device).available_bytes();
      if (needed_bytes <= kShareOfFree * static_cast<double>(free_bytes)) return {};
      return fmt::format("{} takes {} on {}, of whose {} free the sweep uses at most {:.0f}%",
                         describe_inputs(spec_, call.inputs), format_bytes(static_cast<std::int64_t>(needed_bytes)),
                         to_string(device), format_bytes(free_bytes), 100 * kShareOfFree);
    };
    std::string problem = problem_on(device_, call.needed_bytes);
    if (problem.empty() && device_.is_cuda()) problem = problem_on(Device::cpu(), call.input_bytes);  // made there
    return problem;
  }

  SweepPoint measure(std::int64_t value, const SizedCall& call) const {
    const std::vector<Tensor> inputs = random_inputs(spec_, call.views, call.attributes, device_, options_.seed);
    const std::vector<TensorView> views(inputs.begin(), inputs.end());
    DispatchOptions options;
    options.tuning = tuning_policy();
    if (config_) options.config = &*config_;
    const BenchmarkedCall benchmarked(validated_call(spec_, views, call.attributes, {.stream = stream_}), options,
                                      policy_);
    const Contender contender{[&](int count) { return benchmarked.samples_us(count); }};
    const SampleSet times_us(
        take_turns({&contender, 1}, {.budget_s = budget_s_, .should_end = EndRequest::is_made}).front().samples_us);
    const PlanReport& plan = benchmarked.report();
    SweepPoint point;
    point.value = value;
    point.inputs = describe_inputs(spec_, call.inputs);
    point.data_bytes = call.data_bytes;
    point.bytes = plan.cost.bytes;
    point.flops = plan.cost.flops;
    point.median_us = times_us.median();
    point.interval_us = times_us.median_interval();
    point.samples = static_cast<std::int64_t>(times_us.size());
    point.skipped = benchmarked.skipped();
    point.config = plan.config.empty() ? "no tunables" : to_string(plan.config);
    point.config_source = plan.config_source;
    return point;
  }

  /// nullptr where matmul does not take the op's dtype, or fails: the points are there, and worth more.
  const MeasuredRate* matmul_peak() const {
    const SizedCall call = sized_call(values_.front());
    if (call.inputs.empty()) return nullptr;
    try {
      return &measured_matmul_peak(device_, call.inputs.front().dtype);
    } catch (const Error&) {
      return nullptr;
    }
  }

  const BenchOptions& options_;
  const OpSpec& spec_;
  const Device device_;
  const Stream stream_;
  const MeasuringPolicy policy_;
  const double budget_s_;
  double sweep_budget_s_ = 0;
  const SweepRange range_;
  const SweepPattern pattern_;
  const std::vector<std::int64_t> values_;
  std::optional<Config> config_;
};

}  // namespace

int sweep_command(const BenchOptions& options) {
  if (!options.against.empty()) throw_value_error("--sweep times one config at each size; leave --against out");
  if (!options.plot.empty()) check_plot(options.plot);
  const EndRequest end_request;
  const SweepReport report = Sweep(options).run();
  if (report.points.empty()) {
    print_error("interrupted before anything was measured");
    return EndRequest::exit_status();
  }
  if (options.json)
    print_json(to_json(report));
  else
    print_text(to_text(report));
  // Later than the numbers, which a drawing that fails must not lose.
  if (!options.plot.empty()) plot_png("sweep", to_json(report), options.plot);
  if (!EndRequest::is_made()) return 0;
  print_note("interrupted; larger sizes are not measured");
  return EndRequest::exit_status();
}

}  // namespace kiln::cli
