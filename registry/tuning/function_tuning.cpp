#include "registry/tuning/function_tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "autotune/database.hpp"
#include "core/content_hash.hpp"
#include "core/errors.hpp"
#include "ops/common/few_roundings.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/plan/tuning_scope.hpp"
#include "registry/tuning/failed_default.hpp"
#include "registry/tuning/hung_candidate.hpp"
#include "registry/tuning/listed_configs.hpp"
#include "registry/tuning/op_timing.hpp"
#include "registry/tuning/output_comparison.hpp"
#include "registry/tuning/scratch_call.hpp"
#include "runtime/device_info.hpp"
#include "runtime/graph.hpp"

namespace kiln {
namespace {

/// The database keeps configs as text.
bool survives_as_text(const Config& config) {
  try {
    return parse_config(to_string(config)) == config;
  } catch (const UsageError&) {
    return false;
  }
}

void check_function(const TunedFunction& function) {
  detail::check_configs(function.configs);
  detail::check_same_tunables(function.configs);
  for (std::size_t i = 0; i < function.configs.size(); ++i)
    if (const Config& config = function.configs[i]; !survives_as_text(config))
      throw_value_error(
          fmt::format("configs[{}] ({}): names of tunables are of letters (a to z), digits and '_', no digit first", i,
                      to_string(config)));
}

TuningKey key_of(const TunedFunction& function, Device device) {
  const DeviceInfo& info = device_info(device);
  std::vector<DType> dtypes;
  std::vector<const Dims*> shapes;
  std::vector<const TensorView*> tensors;
  for (const TensorView& tensor : function.tensors) {
    dtypes.push_back(tensor.dtype);
    shapes.push_back(&tensor.shape);
    tensors.push_back(&tensor);
  }
  ContentHasher space;
  for (const Config& config : function.configs) space.field(to_string(config));
  return {.device_model = info.name,
          .processors = info.processors,
          .op = function.name,
          .variant = kFunctionVariant,
          .dtypes = dtypes_text(dtypes),
          .shapes = shape_key(shapes),
          .attributes = attributes_text(function.attributes) + layouts_text(tensors, device),
          .kernel_hash = function.digest,
          .space_hash = space.digest().hex()};
}

class FunctionTuning {
 public:
  FunctionTuning(const TunedFunction& function, Stream stream, const TuneOptions& options)
      : function_(function),
        stream_(stream),
        options_(options),
        policy_(options.measuring.value_or(default_measuring_policy(stream.device))),
        key_(key_of(function, stream.device)) {
    for (const Config& config : function.configs) candidates_.push_back({.config = config, .ruled_out = {}});
  }

  TuningResult run() {
    TunerOptions tuner;
    tuner.search.strategy = {.kind = options_.strategy, .seed = options_.seed};
    tuner.search.earlier = find_default();
    tuner.budget_s = options_.budget_s;
    tuner.least_time_limit_s = options_.least_time_limit_s;
    tuner.compiles_while_measuring = false;
    const TuningCallbacks callbacks{.compile = [](std::size_t) {},  // a function is what it is
                                    .run = {},
                                    .difference = [this](std::size_t candidate) { return difference(candidate); },
                                    .measure = [this](const MeasureRequest& request) { return measure(request); },
                                    .progress = options_.progress,
                                    .hung = [this](const TuningResult& result) { report_hung(result); },
                                    .now_s = {}};
    return tune(candidates_, default_index_, callbacks, tuner, options_.stop);
  }

  TuningEntry entry_of(const TuningResult& result) const {
    TuningEntry entry = make_entry(key_, result);
    entry.policy = policy_;
    entry.strategy = to_string(options_.strategy);
    entry.driver = detail::driver_text(device_info(stream_.device));
    entry.compiler = function_.runtime;
    entry.date_unix_s = std::time(nullptr);
    return entry;
  }

 private:
  /// Calls configs in their order until one works, and keeps its results; what became of those before it.
  std::vector<CandidateEvidence> find_default() {
    std::vector<CandidateEvidence> failed = earlier_hung();
    for (default_index_ = 0; default_index_ < candidates_.size(); ++default_index_) {
      const Config& config = candidates_[default_index_].config;
      if (std::ranges::find(failed, config, &CandidateEvidence::config) != failed.end()) continue;
      const auto fails = [&](Outcome outcome, const std::string& reason) {
        CandidateEvidence& evidence = failed.emplace_back();
        evidence.config = config;
        evidence.outcome = outcome;
        evidence.reason = reason;
      };
      metas_.clear();
      wanted_.clear();
      try {
        const std::vector<Tensor> results = compute(config);
        for (const Tensor& result : results) {
          metas_.push_back({result.dtype(), result.shape()});
          wanted_.emplace_back(dense_copy(result, stream_), few_roundings(result.dtype()), target_of(stream_.device),
                               stream_);
        }
        return failed;
      } catch (const CandidateFailure& failure) {
        if (failure.after() == CandidateFailure::After::stop) throw;
        fails(failure.outcome(), failure.what());
      } catch (const CompileError& error) {
        fails(Outcome::uncompiled, error.what());
      } catch (const DeviceError& error) {
        fails(Outcome::unlaunched, error.what());
      }
    }
    detail::check_some_worked(fmt::format("function '{}'", function_.name), function_.configs, failed);
    return failed;
  }

  /// Those that did not return in a process that had to be ended. Other failures are quick to find out anew.
  std::vector<CandidateEvidence> earlier_hung() const {
    std::vector<CandidateEvidence> hung;
    const auto entry = options_.resume ? TuningDatabase::process().find(key_) : nullptr;
    if (entry == nullptr || entry->complete || !detail::is_resumable(*entry)) return hung;
    std::ranges::copy_if(entry->tried, std::back_inserter(hung),
                         [](const CandidateEvidence& one) { return one.outcome == Outcome::hung; });
    return hung;
  }

  std::vector<Tensor> compute(const Config& config) {
    std::vector<Tensor> results = function_.compute(config, stream_);
    synchronize(stream_);
    return results;
  }

  /// The first call of a config, which may compile, and so is no measure of how long one may take.
  std::string difference(std::size_t candidate) {
    const std::vector<Tensor> results = compute(candidates_[candidate].config);
    if (candidate == default_index_) return {};
    if (results.size() != wanted_.size())
      return fmt::format("returned {} arrays, where {} returned {}", results.size(),
                         to_string(candidates_[default_index_].config), wanted_.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const TensorMeta got{results[i].dtype(), results[i].shape()};
      if (got.dtype != metas_[i].dtype || got.shape != metas_[i].shape)
        return fmt::format("result {} is {} {}, where {} returned {} {}", i, name(got.dtype), to_string(got.shape),
                           to_string(candidates_[default_index_].config), name(metas_[i].dtype),
                           to_string(metas_[i].shape));
      if (std::string difference = wanted_[i].difference(dense_copy(results[i], stream_)); !difference.empty())
        return difference;
    }
    return {};
  }

  std::vector<double> measure(const MeasureRequest& request) {
    auto& timing = timings_[request.candidate];
    if (timing == nullptr)
      timing = std::make_unique<CallTiming>(
          [this, &config = candidates_[request.candidate].config](Stream stream) { function_.call(config, stream); },
          stream_, policy_);
    std::vector<double> samples_us = timing->samples_us(request.samples);
    if (request.candidate == default_index_) default_us_.add(samples_us);
    return samples_us;
  }

  /// On the watchdog's thread, while this object's own is inside the function.
  void report_hung(TuningResult result) {
    const TuningScope scope;
    detail::give_default_a_time(result, default_us_);
    detail::report_hung(options_, result, entry_of(result));
  }

  const TunedFunction& function_;
  const Stream stream_;
  const TuneOptions& options_;
  const MeasuringPolicy policy_;
  const TuningKey key_;
  std::vector<Candidate> candidates_;
  std::size_t default_index_ = 0;
  std::vector<OutputComparison> wanted_;  ///< with what the first config that works computes
  std::vector<TensorMeta> metas_;         ///< of those
  SampleSet default_us_;
  std::map<std::size_t, std::unique_ptr<CallTiming>> timings_;
};

}  // namespace

TuneReport tune_function(const TunedFunction& function, Stream stream, const TuneOptions& options) {
  check_function(function);
  if (!(options.budget_s > 0))
    throw_value_error(fmt::format("budget_s={}; expected a number of seconds above 0", options.budget_s));
  if (options.measuring && options.measuring->launch == MeasuringPolicy::Launch::graph)
    throw_not_implemented(
        fmt::format("function '{}' cannot be measured in a graph, which records ops of Kiln only; "
                    "leave 'graph' out of measuring",
                    function.name));
  if (is_capturing(stream))
    throw_value_error(
        fmt::format("function '{}' cannot be tuned while the stream is being captured; tune it before", function.name));
  if (inside_tuning())
    throw_value_error(
        fmt::format("function '{}' cannot be tuned from within a tuning; tune it before or after", function.name));
  const std::lock_guard lock(detail::tuning_mutex());
  const TuningScope scope;
  const auto start = std::chrono::steady_clock::now();
  FunctionTuning tuning(function, stream, options);
  TuningResult result = tuning.run();
  detail::check_some_worked(fmt::format("function '{}'", function.name), function.configs, result.candidates);
  detail::check_default_worked("function", function.name, result.candidates[result.default_index]);
  TuneReport report;
  report.entry = tuning.entry_of(result);
  report.result = std::move(result);
  const bool is_timed = report.result.candidates[report.result.chosen].samples > 0;
  if (options.record && is_timed) {
    const auto conflict =
        report.result.complete ? EntrySet::Conflict::offered_wins : EntrySet::Conflict::better_evidence;
    report.recorded = TuningDatabase::process().record({report.entry}, conflict).front();
  }
  report.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

std::shared_ptr<const TuningEntry> tuned_entry(const TunedFunction& function, Device device) {
  check_function(function);
  return TuningDatabase::process().find(key_of(function, device));
}

}  // namespace kiln
