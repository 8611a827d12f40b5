#include "cli/bench_command.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "autotune/sample_set.hpp"
#include "autotune/warm_up.hpp"
#include "cli/attribute_text.hpp"
#include "cli/measuring.hpp"
#include "cli/quantity.hpp"
#include "cli/random_call.hpp"
#include "cli/table.hpp"
#include "core/errors.hpp"
#include "registry/op_timing.hpp"
#include "registry/registry.hpp"
#include "registry/validation.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

/// One of those that take turns.
struct Contender {
  std::string name;
  std::string config;  ///< empty: the reference
  std::string config_source;
  std::function<std::vector<double>(int)> samples_us;
  SampleSet times_us;
  std::vector<double> turns_us;  ///< the median of each turn
};

/// Tensors that a contender writes: outputs, and copies of inputs that the op changes.
struct Scratch {
  std::vector<Tensor> tensors;
  std::vector<TensorView> inputs, outputs;
};

Scratch make_scratch(const OpSpec& spec, const std::vector<Tensor>& inputs, const std::vector<TensorMeta>& outputs,
                     Stream stream) {
  Scratch scratch;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_copied = input_spec(spec, i).mutated && !is_absent(inputs[i]) && inputs[i].device() == stream.device;
    scratch.tensors.push_back(is_copied ? to_device(inputs[i], stream.device) : inputs[i]);
    scratch.inputs.push_back(scratch.tensors.back());
  }
  for (const TensorMeta& meta : outputs) {
    scratch.tensors.push_back(empty(meta.shape, meta.dtype, stream));
    scratch.outputs.push_back(scratch.tensors.back());
  }
  return scratch;
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        spec_(Registry::process().get(options.call.op)),
        device_(chosen_device(options.device)),
        stream_(Stream::default_of(device_)),
        policy_(measuring_policy(options.measure, options.l2, device_)),
        budget_s_(parse_budget_s(options.budget)),
        attributes_(parse_attributes(spec_, options.call.attributes)) {
    const std::vector<TensorMeta> metas = input_metas(spec_, options.call, attributes_);
    inputs_ = random_inputs(spec_, placeholder_views(metas, device_), attributes_, device_, options.seed);
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

  void run() {
    constexpr int kSamplesPerTurn = 5;
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed_s = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    for (Contender& contender : contenders_) contender.samples_us(1);
    do {
      for (Contender& contender : contenders_) {
        const std::vector<double> samples = contender.samples_us(contender.config.empty() ? 1 : kSamplesPerTurn);
        contender.times_us.add(samples);
        contender.turns_us.push_back(SampleSet(samples).median());
      }
    } while (elapsed_s() < budget_s_ && !is_precise());
  }

  std::string text() const {
    std::vector<std::vector<std::string>> rows{
        {"", "config", "median", "95% interval", "rate", "of the memory's peak"}};
    for (const Contender& contender : contenders_) {
      const double median_us = contender.times_us.median();
      const Interval interval = contender.times_us.median_interval();
      rows.push_back(
          {contender.name,
           contender.config.empty() ? "the op's definition, on one thread of the CPU"
                                    : fmt::format("{} ({})", contender.config, contender.config_source),
           format_duration_us(median_us),
           contender.times_us.size() < kFewestForInterval
               ? "-"
               : fmt::format("{} to {}", format_duration_us(interval.low), format_duration_us(interval.high)),
           rate_text(median_us), share_text(median_us)});
    }
    std::string text = fmt::format("{}, {}\n{}", call_, to_string(policy_), format_table(rows, 2));
    if (contenders_.size() > 1) {
      const SampleSet ratios = this->ratios();
      const Interval interval = ratios.median_interval();
      text += fmt::format("  {:.3f}x as fast as {}", ratios.median(), contenders_[1].name);
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
                 {"contenders", Json::array()}};
    for (const Contender& contender : contenders_) {
      const Interval interval = contender.times_us.median_interval();
      json["contenders"].push_back({{"name", contender.name},
                                    {"config", contender.config},
                                    {"config_source", contender.config_source},
                                    {"median_us", contender.times_us.median()},
                                    {"interval_us", {interval.low, interval.high}},
                                    {"samples", contender.times_us.size()}});
    }
    if (contenders_.size() > 1) {
      const Interval interval = ratios().median_interval();
      json["speedup"] = {{"median", ratios().median()}, {"interval", {interval.low, interval.high}}};
    }
    return json;
  }

 private:
  void add_op(const std::string& name, const std::optional<Config>& config, TuningPolicy tuning) {
    DispatchOptions options;
    options.stream = stream_;
    options.tuning = tuning;
    if (config) options.config = &*config;
    const std::vector<TensorView> views(inputs_.begin(), inputs_.end());
    const ResolvedOp op = resolve(spec_.name, views, attributes_, options);
    const Scratch& scratch = scratch_.emplace_back(make_scratch(spec_, inputs_, op.outputs(), stream_));
    const OpTiming& timing = timings_.emplace_back(op, scratch.inputs, scratch.outputs, stream_, policy_);
    cost_ = op.report().cost;
    contenders_.push_back({name,
                           op.report().config.empty() ? "no tunables" : to_string(op.report().config),
                           op.report().config_source,
                           [&timing](int count) { return timing.samples_us(count); },
                           {},
                           {}});
  }

  void add_reference() {
    if (!spec_.reference) throw_value_error(fmt::format("op '{}' has no reference to compare with", spec_.name));
    std::vector<Tensor> on_cpu;
    for (const Tensor& input : inputs_) on_cpu.push_back(is_absent(input) ? input : to_device(input, Device::cpu()));
    const std::vector<TensorView> views(on_cpu.begin(), on_cpu.end());
    const Attributes complete = complete_attributes(spec_, attributes_);
    const Stream cpu = Stream::default_of(Device::cpu());
    const Scratch& scratch = scratch_.emplace_back(make_scratch(spec_, on_cpu, spec_.infer(views, complete), cpu));
    contenders_.push_back(
        {"reference",
         "",
         "",
         [this, &scratch, complete](int count) {
           std::vector<double> samples_us;
           for (int i = 0; i < count; ++i) {
             const auto start = std::chrono::steady_clock::now();
             spec_.reference({scratch.inputs, scratch.outputs, complete});
             samples_us.push_back(
                 std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
           }
           return samples_us;
         },
         {},
         {}});
  }

  bool is_precise() const {
    constexpr Precision kPrecision;
    for (const Contender& contender : contenders_)
      if (contender.times_us.median_interval().width() > kPrecision.width_at(contender.times_us.median(), 1))
        return false;
    return true;
  }

  /// How much faster the first contender is than the second, turn by turn.
  SampleSet ratios() const {
    SampleSet ratios;
    for (std::size_t turn = 0; turn < contenders_[0].turns_us.size(); ++turn)
      ratios.add(contenders_[1].turns_us[turn] / contenders_[0].turns_us[turn]);
    return ratios;
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
  Cost cost_;
  std::deque<Scratch> scratch_;
  std::deque<OpTiming> timings_;
  std::vector<Contender> contenders_;
};

}  // namespace

int bench_command(const BenchOptions& options) {
  Bench bench(options);
  bench.run();
  std::fputs((options.json ? bench.json().dump(2) + '\n' : bench.text()).c_str(), stdout);
  return 0;
}

}  // namespace kiln::cli
