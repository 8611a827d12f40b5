#include "registry/inspection/measured_peak.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "autotune/turns.hpp"
#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "registry/inspection/benchmarked_call.hpp"
#include "registry/inspection/random_input.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"
#include "registry/profiling/known_peak.hpp"
#include "registry/tuning/tuning_report.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory_usage.hpp"

namespace kiln {
namespace {

constexpr double kSearchBudgetS = 0.5;   ///< of each op, for the choice of a config
constexpr double kMeasureBudgetS = 0.5;  ///< of each op, for the number
constexpr int kTrialSamples = 2;
constexpr int kOtherValuesTried = 2;  ///< of each tunable
constexpr std::int64_t kCacheMultiple = 4;
/// On a GPU so large that a launch's ends do not count, on a CPU so small that it takes no time.
constexpr std::int64_t kLeastGpuBytes = std::int64_t{1} << 30;
constexpr std::int64_t kLeastCpuBytes = std::int64_t{64} << 20;
/// The part of free memory that may be taken for a while.
constexpr std::int64_t kFreeShare = 4;
constexpr DType kStreamed = DType::f32;
/// Square matrices; the best of these sizes counts, for which one suits depends on the caches.
constexpr std::int64_t kCpuMatmulExtents[] = {256, 512, 1024};
constexpr std::int64_t kGpuMatmulExtents[] = {4096, 8192};
constexpr std::int64_t kGpuWideMatmulExtents[] = {2048, 4096};  ///< of 4 and 8 bytes, which take longer

Tensor random_tensor(const Dims& shape, DType dtype, Device device, InputRange range, std::uint64_t stream) {
  const Tensor host = empty(shape, dtype, Device::cpu());
  fill_random(host, range, /*seed=*/0, stream);
  return device.is_cuda() ? to_device(host, device) : host;
}

/// One op over given tensors.
class RateMeasurement {
 public:
  RateMeasurement(std::string_view op, const std::vector<TensorView>& inputs, Stream stream)
      : call_(validated_call(Registry::process().get(op), inputs, {}, {.stream = stream})) {}

  /// With the best of a few configs: of each tunable some other values are tried, and the best is kept.
  MeasuredRate with_search() {
    const PlanReport chosen = consider(std::nullopt);
    for (const auto& [tunable, values] : other_values(chosen))
      for (const std::int64_t value : values) {
        if (sampled_us_ > kSearchBudgetS * 1e6) return measure();
        Config config = best_config_;
        config.set(tunable, value);
        try {
          consider(config);
        } catch (const Error&) {  // outside the space, or more than the device holds
          continue;
        }
      }
    return measure();
  }

  /// With the config that a dispatch takes, tuned or not.
  MeasuredRate measure() const {
    const BenchmarkedCall call = prepare(best_config_.empty() ? std::nullopt : std::optional(best_config_));
    const Contender contender{[&](int count) { return call.samples_us(count); }};
    const SampleSet times_us(take_turns({&contender, 1}, {.budget_s = kMeasureBudgetS}).front().samples_us);
    MeasuredRate rate;
    rate.op = call_.spec->name;
    for (const TensorView& input : call_.inputs)
      rate.call += fmt::format("{}{} {}", rate.call.empty() ? "" : ", ", name(input.dtype), to_string(input.shape));
    rate.config = call.report().config;
    rate.bytes = call.report().cost.bytes;
    rate.flops = call.report().cost.flops;
    rate.best_us = times_us.smallest();
    rate.median_us = times_us.median();
    rate.samples = static_cast<std::int64_t>(times_us.size());
    return rate;
  }

 private:
  using OtherValues = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

  OtherValues other_values(const PlanReport& chosen) const {
    OtherValues others;
    for (const Variant& variant : call_.spec->variants) {
      if (variant.name != chosen.variant) continue;
      const ConfigSpace space = variant.space(target_of(call_.device));
      for (const Tunable& tunable : space.tunables()) {
        std::vector<std::int64_t>& values = others.emplace_back(tunable.name, std::vector<std::int64_t>{}).second;
        std::copy_if(tunable.values.begin(), tunable.values.end(), std::back_inserter(values),
                     [&](std::int64_t value) { return value != chosen.config.at(tunable.name); });
        values.resize(std::min<std::size_t>(values.size(), kOtherValuesTried));
      }
    }
    return others;
  }

  BenchmarkedCall prepare(const std::optional<Config>& config) const {
    DispatchOptions options;
    options.tuning = TuningPolicy::use;
    if (config) options.config = &*config;
    return {call_, options, default_measuring_policy(call_.device)};
  }

  PlanReport consider(const std::optional<Config>& config) {
    const BenchmarkedCall call = prepare(config);
    const std::vector<double> samples_us = call.samples_us(kTrialSamples);  // the first of them warms up
    const double time_us = *std::min_element(samples_us.begin(), samples_us.end());
    sampled_us_ += std::accumulate(samples_us.begin(), samples_us.end(), 0.0);
    if (best_us_ == 0 || time_us < best_us_) {
      best_us_ = time_us;
      best_config_ = call.report().config;
    }
    return call.report();
  }

  const Call call_;
  double sampled_us_ = 0;  ///< compiling does not count, for it happens once on a machine
  double best_us_ = 0;
  Config best_config_;
};

/// A stream that no other work of the process is on; the CPU has but one.
class QuietStream {
 public:
  explicit QuietStream(Device device) : stream_(Stream::default_of(device)) {
    if (device.is_cuda()) stream_ = owned_.emplace(device).get();
  }
  operator Stream() const noexcept { return stream_; }

 private:
  std::optional<OwnedStream> owned_;
  Stream stream_;
};

MeasuredPeak measure_peak(Device device) {
  MeasuredPeak peak;
  peak.device = device;
  peak.device_name = device_info(device).name;
  peak.cache_bytes = last_level_cache_bytes(device);
  const std::int64_t wanted_bytes =
      std::max(kCacheMultiple * peak.cache_bytes, device.is_cuda() ? kLeastGpuBytes : kLeastCpuBytes);
  const std::int64_t free_bytes = std::min(memory_usage(device).available_bytes(),
                                           memory_usage(Device::cpu()).available_bytes());  // random data begins there
  peak.data_bytes = std::min(wanted_bytes, free_bytes / kFreeShare);
  peak.exceeds_cache = peak.data_bytes >= kCacheMultiple * peak.cache_bytes;
  const std::int64_t elements = peak.data_bytes / itemsize_bytes(kStreamed);
  if (elements < 3)
    throw DeviceError("measuring the bandwidth of " + to_string(device), 0,
                      fmt::format("out of memory: {} are free", format_bytes(free_bytes)));
  const QuietStream stream(device);
  const Tensor data = random_tensor({elements}, kStreamed, device, {}, /*stream=*/0);
  // Each op's tensors, its output among them, are as large together.
  const auto part = [&](std::int64_t parts, std::int64_t index) {
    TensorView view = data.view();
    view.shape[0] = elements / parts;
    view.data = data.data_as<std::byte>() + index * (elements / parts) / 64 * 64 * itemsize_bytes(kStreamed);
    return view;
  };
  peak.rates.push_back(RateMeasurement("sum", {part(1, 0)}, stream).with_search());
  peak.rates.push_back(RateMeasurement("copy", {part(2, 0)}, stream).with_search());
  peak.rates.push_back(RateMeasurement("add", {part(3, 0), part(3, 1)}, stream).with_search());
  std::sort(peak.rates.begin(), peak.rates.end(),
            [](const MeasuredRate& a, const MeasuredRate& b) { return a.gb_s() > b.gb_s(); });
  peak.bandwidth_gb_s = peak.rates.front().gb_s();
  return peak;
}

MeasuredRate measure_matmul(Device device, DType dtype) {
  device_info(device);  // refuses a device that is not there before any matrix is made
  const bool is_wide = itemsize_bytes(dtype) >= 4;
  const std::span<const std::int64_t> extents = !device.is_cuda() ? std::span<const std::int64_t>(kCpuMatmulExtents)
                                                : is_wide         ? std::span<const std::int64_t>(kGpuWideMatmulExtents)
                                                                  : std::span<const std::int64_t>(kGpuMatmulExtents);
  const OpSpec& spec = Registry::process().get("matmul");
  const InputRange range = spec.input_ranges.empty() ? InputRange{} : spec.input_ranges.front();
  const QuietStream stream(device);
  std::optional<MeasuredRate> best;
  for (const std::int64_t extent : extents) {
    const Tensor a = random_tensor({extent, extent}, dtype, device, range, /*stream=*/0);
    const Tensor b = random_tensor({extent, extent}, dtype, device, range, /*stream=*/1);
    MeasuredRate rate = RateMeasurement(spec.name, {a, b}, stream).measure();
    if (!best || rate.tflop_s() > best->tflop_s()) best = std::move(rate);
  }
  return *std::move(best);
}

/// What was measured for a key, once; a measurement that throws is tried again by who asks next.
template <typename Key, typename Value>
class Kept {
 public:
  const Value& get(const Key& key, const std::function<Value()>& measure) {
    const std::lock_guard lock(mutex_);  // two measurements at a time would disturb each other
    const auto found = values_.find(key);
    return found != values_.end() ? found->second : values_.emplace(key, measure()).first->second;
  }
  /// Null where there is none, and while one is being measured.
  const Value* find(const Key& key) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return nullptr;
    const auto found = values_.find(key);
    return found != values_.end() ? &found->second : nullptr;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Value> values_;
};

// Never destroyed: threads may still ask while the process exits.
Kept<Device, MeasuredPeak>& kept_peaks() {
  static auto* const peaks = new Kept<Device, MeasuredPeak>;
  return *peaks;
}
Kept<std::pair<Device, DType>, MeasuredRate>& kept_matmul_peaks() {
  static auto* const peaks = new Kept<std::pair<Device, DType>, MeasuredRate>;
  return *peaks;
}

}  // namespace

const MeasuredPeak& measured_peak(Device device) {
  return kept_peaks().get(device, [&] {
    MeasuredPeak peak = measure_peak(device);
    set_measured_bandwidth(device, peak.bandwidth_gb_s);
    return peak;
  });
}

const MeasuredPeak* find_measured_peak(Device device) {
  return kept_peaks().find(device);
}

const MeasuredRate& measured_matmul_peak(Device device, DType dtype) {
  return kept_matmul_peaks().get({device, dtype}, [&] {
    MeasuredRate rate = measure_matmul(device, dtype);
    set_measured_arithmetic(device, dtype, rate.tflop_s());
    return rate;
  });
}

const MeasuredRate* find_measured_matmul_peak(Device device, DType dtype) {
  return kept_matmul_peaks().find({device, dtype});
}

std::string to_string(const MeasuredPeak& peak) {
  const MeasuredRate& best = peak.rates.front();
  std::string text = fmt::format("{:.4g} GB/s by {} {}", peak.bandwidth_gb_s, best.op, best.call);
  if (!best.config.empty()) text += " with " + config_text(best.config);
  text += fmt::format(", best of {} calls over {} each (median {:.4g})", best.samples,
                      format_bytes(static_cast<std::int64_t>(best.bytes)), best.bytes / best.median_us * 1e-3);
  if (!peak.exceeds_cache)
    text += fmt::format("; less than 4 times the cache of {}, for memory is short", format_bytes(peak.cache_bytes));
  return text;
}

}  // namespace kiln
