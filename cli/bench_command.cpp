#include "cli/bench_command.hpp"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "autotune/sample_set.hpp"
#include "autotune/turns.hpp"
#include "cli/attribute_text.hpp"
#include "cli/command_profile.hpp"
#include "cli/end_request.hpp"
#include "cli/measuring.hpp"
#include "cli/random_call.hpp"
#include "cli/standard_streams.hpp"
#include "cli/sweep_command.hpp"
#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "registry/inspection/benchmarked_call.hpp"
#include "registry/plan/registry.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "runtime/device_info.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

/// One of those that take turns.
struct Row {
  std::string name;
  std::string config;  ///< empty: the reference
  std::string config_source;
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        spec_(Registry::process().get(options.call.op)),
        device_(chosen_device(options.device)),
        stream_(Stream::default_of(device_)),
        policy_(measuring_policy(options.measure, options.l2, device_)),
        budget_s_(parse_budget_s(options.budget.empty() ? "3s" : options.budget)),
        attributes_(parse_attributes(spec_, options.call.attributes)) {
    const std::vector<TensorMeta> metas = input_metas(spec_, options.call, attributes_);
    inputs_ = random_inputs(spec_, call_views(spec_, options.call, metas, device_), attributes_, device_, options.seed);
    const std::vector<TensorView> views(inputs_.begin(), inputs_.end());
    validated_ = validated_call(spec_, views, attributes_, {.stream = stream_});
    call_ = fmt::format("{} {} on {} ({})", spec_.name, describe_inputs(spec_, metas), to_string(device_),
                        device_info(device_).name);
    add_op("kiln", options.config.empty() ? std::nullopt : std::optional(parse_config(options.config)),
           tuning_policy());
    if (options.against == "reference")
      add_reference();
    else if (options.against == "default")
      add_op("default", std::nullopt, TuningPolicy::off);
    else if (!options.against.empty())
      add_op(options.against, parse_config(options.against), TuningPolicy::off);
  }

  /// As far as it comes before an EndRequest.
  void run() { times_ = take_turns(contenders_, {.budget_s = budget_s_, .should_end = EndRequest::is_made}); }

  std::string text() const {
    std::vector<std::vector<std::string>> rows{
        {"", "config", "median", "95% interval", "rate", "of the memory's peak"}};
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const SampleSet times_us(times_[i].samples_us);
      const double median_us = times_us.median();
      const Interval interval = times_us.median_interval();
      rows.push_back({rows_[i].name,
                      rows_[i].config.empty() ? "the op's definition, on one thread of the CPU"
                                              : fmt::format("{} ({})", rows_[i].config, rows_[i].config_source),
                      format_duration_us(median_us),
                      times_us.size() < kFewestForInterval ? "-"
                                                           : fmt::format("{} to {}", format_duration_us(interval.low),
                                                                         format_duration_us(interval.high)),
                      rate_text(median_us), share_text(median_us)});
    }
    std::string text = fmt::format("{}, {}\n{}", call_, to_string(policy_), format_table(rows, 2));
    if (const std::string skipped = skipped_text(skipped_); !skipped.empty())
      text += fmt::format("  skipped: {}\n", skipped);
    if (rows_.size() > 1) {
      const SampleSet ratios = speedups(times_[0], times_[1]);
      const Interval interval = ratios.median_interval();
      text += fmt::format("  {:.3f}x as fast as {}", ratios.median(), rows_[1].name);
      if (ratios.size() >= kFewestForInterval) text += fmt::format(" ({:.3f} to {:.3f})", interval.low, interval.high);
      text += fmt::format(", {} turns each\n", ratios.size());
    }
    return text;
  }

  Json json() const {
    Json json = {{"op", spec_.name},
                 {"device", to_string(device_)},
                 {"device_name", device_info(device_).name},
                 {"policy", to_string(policy_)},
                 {"bytes", cost_.bytes},
                 {"flops", cost_.flops},
                 {"skipped_share", skipped_ ? skipped_->share() : 0.0},
                 {"contenders", Json::array()}};
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const SampleSet times_us(times_[i].samples_us);
      const Interval interval = times_us.median_interval();
      json["contenders"].push_back({{"name", rows_[i].name},
                                    {"config", rows_[i].config},
                                    {"config_source", rows_[i].config_source},
                                    {"median_us", times_us.median()},
                                    {"interval_us", {interval.low, interval.high}},
                                    {"samples", times_us.size()}});
    }
    if (rows_.size() > 1) {
      const SampleSet ratios = speedups(times_[0], times_[1]);
      const Interval interval = ratios.median_interval();
      json["speedup"] = {{"median", ratios.median()}, {"interval", {interval.low, interval.high}}};
    }
    return json;
  }

 private:
  void add_op(const std::string& name, const std::optional<Config>& config, TuningPolicy tuning) {
    DispatchOptions options;
    options.tuning = tuning;
    if (config) options.config = &*config;
    const BenchmarkedCall& call = calls_.emplace_back(validated_, options, policy_);
    const PlanReport& report = call.report();
    cost_ = report.cost;
    skipped_ = call.skipped();
    contenders_.push_back({[&call](int count) { return call.samples_us(count); }});
    rows_.push_back({name, report.config.empty() ? "no tunables" : to_string(report.config), report.config_source});
  }

  void add_reference() {
    reference_.emplace(validated_);
    contenders_.push_back({[this](int count) { return reference_->samples_us(count); }, /*samples_per_turn=*/1});
    rows_.push_back({"reference", "", ""});
  }

  std::string rate_text(double us) const {
    std::string text = fmt::format("{:.4g} GB/s", cost_.bytes / us * 1e-3);
    if (cost_.flops > 2 * cost_.bytes) text += fmt::format(", {:.4g} GFLOP/s", cost_.flops / us * 1e-3);
    return text;
  }

  std::string share_text(double us) const {
    const double peak_gb_s = device_info(device_).peak_bandwidth_gb_s;
    return peak_gb_s > 0 ? fmt::format("{:.1f}%", 100 * cost_.bytes / us * 1e-3 / peak_gb_s) : "-";
  }

  const BenchOptions& options_;
  const OpSpec& spec_;
  const Device device_;
  const Stream stream_;
  const MeasuringPolicy policy_;
  const double budget_s_;
  const Attributes attributes_;
  std::string call_;
  std::vector<Tensor> inputs_;
  Call validated_;  ///< of inputs_
  Cost cost_;
  std::optional<SkippedWork> skipped_;
  std::deque<BenchmarkedCall> calls_;
  std::optional<BenchmarkedReference> reference_;
  std::vector<Contender> contenders_;
  std::vector<Row> rows_;              ///< of contenders_
  std::vector<ContenderTimes> times_;  ///< of contenders_
};

}  // namespace

int bench_command(const BenchOptions& options) {
  if (options.is_sweep && !options.profile.empty())
    throw_value_error("--profile records the calls of one size; leave out --sweep");
  if (options.is_sweep) return sweep_command(options);
  if (!options.sweep_budget.empty()) throw_value_error("--sweep-budget bounds a sweep; give --sweep too");
  if (!options.plot.empty()) throw_value_error("--plot draws a sweep; give --sweep too");
  CommandProfile profile(options.profile, options.measured_peak);
  Bench bench(options);
  const EndRequest end_request;
  bench.run();
  profile.stop();
  if (options.json)
    print_json(bench.json());
  else
    print_text(bench.text());
  profile.finish(options.json);
  if (!EndRequest::is_made()) return 0;
  print_note("interrupted; the times are of the turns until then");
  return EndRequest::exit_status();
}

}  // namespace kiln::cli
