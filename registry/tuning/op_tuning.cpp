#include "registry/tuning/op_tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "autotune/database.hpp"
#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/call_observer.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/plan/tuning_policy.hpp"
#include "registry/plan/tuning_scope.hpp"
#include "registry/tuning/failed_default.hpp"
#include "registry/tuning/hung_candidate.hpp"
#include "registry/tuning/kernel_copies.hpp"
#include "registry/tuning/launch_twins.hpp"
#include "registry/tuning/listed_configs.hpp"
#include "registry/tuning/op_timing.hpp"
#include "registry/tuning/output_comparison.hpp"
#include "registry/tuning/scratch_call.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

/// NVRTC 13.0 compiles 1.1 products a second on one thread, 3.8 on 8 and 3.5 on 15 of 16 processors, where each takes
/// three times as long.
constexpr int kMostCompileThreads = 8;
constexpr std::size_t kMostForExhaustiveOnCpu = 128;
/// On a CPU up to this budget is for the likeliest candidates alone.
constexpr double kShortBudgetS = 5;
constexpr std::int64_t kResumeWithinSeconds = 24 * 60 * 60;
/// Calls shorter than this are warmed up by one that does not count.
constexpr double kWarmUpBelowUs = 10'000;
/// About how long one visit to a candidate with longer calls may take.
constexpr double kVisitUs = 200'000;
/// Two copies of one kernel differ by parts of a microsecond where caches are cold, and in some processes that had
/// loaded hundreds of kernels the first one, the default, took a tenth less of 6 us than any other. In a playoff calls
/// shorter than this go through as many copies of their kernels.
constexpr double kCopiedBelowUs = 100;

/// In the order the space names its tunables, as its candidates are.
Config in_order_of(const ConfigSpace& space, const Config& config) {
  Config ordered;
  for (const Tunable& tunable : space.tunables()) ordered.set(tunable.name, config.at(tunable.name));
  return ordered;
}

/// Whether the device still takes work after a failure: a fault of a GPU costs the process its context.
bool is_alive(Stream stream) noexcept {
  try {
    synchronize(stream);
    synchronize(Stream::default_of(stream.device));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Runs `body`; a failure that the device does not survive ends the tuning.
template <typename Body>
auto guarded(Stream stream, const Body& body) {
  try {
    return body();
  } catch (const DeviceError& error) {
    if (is_alive(stream)) throw;
    throw CandidateFailure(Outcome::unlaunched, error.what(), CandidateFailure::After::stop);
  }
}

class OpTuning {
 public:
  OpTuning(const Call& call, const Target& target, const TuneOptions& options)
      : stream_(*call.stream),
        target_(target),
        options_(options),
        scratch_(call),
        call_(scratch_.call()),
        skipped_(skipped_work(call)),
        choice_(choose(call_, target, nullptr)),
        policy_(options.measuring.value_or(default_measuring_policy(call.device))),
        copies_(call_, target, policy_) {
    if (call.spec->cost) cost_ = call.spec->cost(call_.seen_by_spec());
    const ConfigSpace space = choice_.variant->space(target);
    const Config default_config = in_order_of(space, choice_.config);
    launches_.find_or_add(default_config, choice_.plan);
    if (is_listed())
      list_candidates(space, default_config);
    else
      candidates_ =
          candidates_of(space, {.over_resources =
                                    [&](const Config& config) {
                                      return config == default_config ? std::string() : reason_to_pass_over(config);
                                    },
                                .lower_bound_us = [this](const Config&) { return roofline_us(); }});
    default_index_ = index_of(candidates_, default_config);
    key_ = tuning_key(call_, *choice_.variant, target);
    ops_.resize(candidates_.size());
  }

  const TuningKey& key() const noexcept { return key_; }
  /// The configs that the caller gave, in full, but for the default.
  const std::vector<Config>& listed() const noexcept { return listed_; }
  const Cost& cost() const noexcept { return cost_; }
  const std::optional<SkippedWork>& skipped() const noexcept { return skipped_; }

  TuningResult run() {
    TunerOptions tuner;
    const bool on_gpu = stream_.device.is_cuda();
    tuner.search.strategy = detail::strategy_of(options_, stream_.device, num_eligible());
    if (!is_listed()) tuner.search.strategy.ranking = ranking();
    if (may_take_copies()) tuner.search.strategy.finalists = kFinalistsByCopies;
    if (options_.resume) tuner.search.earlier = earlier();
    tuner.budget_s = options_.budget_s;
    tuner.least_time_limit_s = options_.least_time_limit_s;
    tuner.compile_threads = detail::compile_threads(stream_.device, device_info(Device::cpu()).processors);
    tuner.compiles_while_measuring = on_gpu;
    const TuningCallbacks callbacks{
        .compile = [this](std::size_t candidate) { compile(candidate); },
        .run = [this](std::size_t candidate) { guarded(stream_, [&] { run(candidate); }); },
        .difference = [this](std::size_t candidate) { return guarded(stream_, [&] { return difference(candidate); }); },
        .measure = [this](const MeasureRequest& request) { return guarded(stream_, [&] { return measure(request); }); },
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
    if (is_listed()) entry.complete = false;  // of the space, of which it has seen a few
    entry.compiler = compiler_for(stream_.device.type).identity();
    entry.date_unix_s = std::time(nullptr);
    return entry;
  }

 private:
  std::vector<std::size_t> ranking() const {
    std::vector<std::size_t> ranking;
    if (!choice_.variant->ranking) return ranking;
    const ConfigSpace space = choice_.variant->space(target_);
    for (const Config& config : choice_.variant->ranking(call_.seen_by_spec(), target_))
      ranking.push_back(index_of(candidates_, in_order_of(space, config)));
    return ranking;
  }

  bool is_listed() const { return !options_.configs.empty(); }

  /// What somebody lists is tried, and fails where it cannot run: an answer to each.
  void list_candidates(const ConfigSpace& space, const Config& default_config) {
    candidates_.push_back({.config = default_config, .ruled_out = {}});
    for (Config& config : detail::completed_configs(space, default_config, options_.configs)) {
      if (config == default_config) continue;
      listed_.push_back(config);
      candidates_.push_back({.config = std::move(config), .ruled_out = {}});
    }
  }

  double roofline_us() const {
    const double peak_gb_s = device_info(stream_.device).peak_bandwidth_gb_s;
    // Bytes that were just written may still be in a cache, which no bandwidth bounds: only what is larger counts.
    const bool is_large = cost_.bytes > 4.0 * static_cast<double>(device_info(stream_.device).l2_bytes);
    return peak_gb_s > 0 && is_large ? cost_.bytes / peak_gb_s * 1e-3 : 0;
  }

  /// Why a config need not be measured, as far as that is clear without.
  std::string reason_to_pass_over(const Config& config) {
    const Variant& variant = *choice_.variant;
    if (variant.worth_trying && !variant.worth_trying(call_.seen_by_spec(), config, target_))
      return "for this call others are at least as good";
    LaunchPlan plan;
    try {
      plan = variant.plan(call_.seen_by_spec(), config, target_);
    } catch (const Error& error) {
      return error.what();
    }
    const std::int32_t limit_bytes = device_info(stream_.device).shared_bytes_per_block;
    for (const KernelLaunch& launch : plan.launches)
      if (stream_.device.is_cuda() && launch.geometry.shared_bytes > limit_bytes)
        return fmt::format("needs {} bytes of shared memory, the device has {}", launch.geometry.shared_bytes,
                           limit_bytes);
    if (const Config* twin = launches_.find_or_add(config, std::move(plan)))
      return fmt::format("launches the same as {}", to_string(*twin));
    return {};
  }

  std::size_t num_eligible() const {
    return static_cast<std::size_t>(
        std::count_if(candidates_.begin(), candidates_.end(), [](const auto& c) { return c.ruled_out.empty(); }));
  }

  std::vector<CandidateEvidence> earlier() const {
    const auto entry = TuningDatabase::process().find(key_);
    if (entry == nullptr || entry->driver != detail::driver_text(device_info(stream_.device)) || entry->complete ||
        entry->strategy != to_string(options_.strategy) ||
        entry->compiler != compiler_for(stream_.device.type).identity() || !detail::is_resumable(*entry))
      return {};
    std::vector<CandidateEvidence> tried = entry->tried;
    // Who was cut was slower than the best of another list.
    if (is_listed()) std::erase_if(tried, [](const CandidateEvidence& one) { return !is_failure(one.outcome); });
    return tried;
  }

  /// Several at a time, each for another candidate.
  void compile(std::size_t candidate) {
    const TuningScope scope;
    DispatchOptions options;
    options.config = &candidates_[candidate].config;
    try {
      ops_[candidate] = std::make_unique<ResolvedOp>(resolve(call_, options));
    } catch (const UsageError& error) {
      // Such as more shared memory than the device has, where only the compiled kernel says how much it needs. The
      // default's error is the call's.
      if (candidate == default_index_) throw;
      throw CandidateFailure(Outcome::unlaunched, error.what());
    }
  }

  void run(std::size_t candidate) {
    scratch_.restore();
    scratch_.poison_outputs();
    (*ops_[candidate])(call_.inputs, call_.outputs, stream_);
    synchronize(stream_);
  }

  std::string difference(std::size_t candidate) {
    if (candidate == default_index_) {
      wanted_.clear();
      for (const Tensor& result : scratch_.results())
        wanted_.emplace_back(
            dense_copy(result, stream_),
            call_.spec->tolerance_of(result.dtype(), call_.inputs.empty() ? nullptr : &call_.inputs[0]), target_,
            stream_);
    }
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      if (std::string difference = wanted_[i].difference(scratch_.results()[i]); !difference.empty()) return difference;
    return {};
  }

  std::vector<double> measure(const MeasureRequest& request) {
    std::vector<double> samples_us = take_samples(request);
    if (request.candidate == default_index_) default_us_.add(samples_us);
    return samples_us;
  }

  std::vector<double> take_samples(const MeasureRequest& request) {
    scratch_.restore();
    if (request.round && takes_copies()) {
      try {
        return copies_.samples_us(request.candidate, candidates_[request.candidate].config, request.samples);
      } catch (const DeviceError&) {
        // There may be no room for copies: all go on by the kernels they have. A device that is gone fails there too.
        takes_copies_ = false;
        copies_.clear();
      }
    }
    auto& timing = timings_[request.candidate];
    if (timing == nullptr)
      timing = std::make_unique<OpTiming>(*ops_[request.candidate], call_.inputs, call_.outputs, stream_, policy_);
    const double first_us = timing->samples_us(1).front();
    if (first_us < kWarmUpBelowUs) return timing->samples_us(request.samples);
    // A call as long as that warms up within itself, and one that must not be waited for is found out by few.
    std::vector<double> samples_us{first_us};
    const int more = std::min(request.samples, std::max(3, static_cast<int>(kVisitUs / first_us))) - 1;
    if (more > 0) {
      const std::vector<double> rest = timing->samples_us(more);
      samples_us.insert(samples_us.end(), rest.begin(), rest.end());
    }
    return samples_us;
  }

  /// Not for graphs, each of which holds a workspace of its own.
  bool may_take_copies() const {
    return stream_.device.is_cuda() && policy_.l2 == MeasuringPolicy::L2::flushed &&
           policy_.launch == MeasuringPolicy::Launch::eager;
  }

  bool takes_copies() {
    if (!takes_copies_) takes_copies_ = may_take_copies() && default_us_.median() < kCopiedBelowUs;
    return *takes_copies_;
  }

  /// On the watchdog's thread, while this object's own is inside a callback.
  void report_hung(TuningResult result) {
    const TuningScope scope;
    detail::give_default_a_time(result, default_us_);
    detail::report_hung(options_, result, entry_of(result));
  }

  const Stream stream_;
  const Target target_;
  const TuneOptions& options_;
  const ScratchCall scratch_;
  const Call& call_;  ///< scratch_'s
  const std::optional<SkippedWork> skipped_;
  const Choice choice_;
  LaunchTwins launches_;
  const MeasuringPolicy policy_;
  Cost cost_;
  std::vector<Candidate> candidates_;
  std::vector<Config> listed_;
  std::size_t default_index_ = 0;
  TuningKey key_;
  std::vector<std::unique_ptr<ResolvedOp>> ops_;
  std::map<std::size_t, std::unique_ptr<OpTiming>> timings_;
  KernelCopies copies_;
  std::optional<bool> takes_copies_;      ///< from the playoff's first request on
  std::vector<OutputComparison> wanted_;  ///< with what the default computes, from its own run on
  SampleSet default_us_;
};

}  // namespace

namespace detail {

StrategyOptions strategy_of(const TuneOptions& options, Device device, std::size_t eligible) {
  StrategyOptions strategy{.kind = options.strategy, .seed = options.seed};
  if (options.strategy != StrategyKind::automatic) return strategy;
  if (!options.configs.empty()) {
    strategy.kind = StrategyKind::exhaustive;
    return strategy;
  }
  // Compiling is most of the time unless an earlier search did it: what is likely to be good comes first. On a CPU it
  // takes turns with measuring, and large spaces are sampled.
  strategy.likeliest_first = true;
  if (device.is_cuda()) return strategy;
  if (options.budget_s <= kShortBudgetS)
    strategy.kind = StrategyKind::likeliest;
  else if (eligible > kMostForExhaustiveOnCpu)
    strategy.kind = StrategyKind::evolutionary;
  return strategy;
}

void give_default_a_time(TuningResult& result, const SampleSet& default_us) {
  CandidateEvidence& of_default = result.candidates[result.default_index];
  if (of_default.samples > 0 || is_failure(of_default.outcome)) return;
  of_default.outcome = Outcome::measured;
  of_default.samples = static_cast<int>(default_us.size());
  of_default.median_us = default_us.median();
  of_default.interval_us = default_us.median_interval();
}

bool is_resumable(const TuningEntry& entry) {
  return std::time(nullptr) - entry.date_unix_s <= kResumeWithinSeconds;
}

std::string driver_text(const DeviceInfo& info) {
  return info.driver_version == 0 ? std::string()
                                  : fmt::format("{}.{}", info.driver_version / 1000, info.driver_version % 1000 / 10);
}

int compile_threads(Device device, int processors) {
  // One processor of a GPU's host is for the thread that launches and waits. A CPU's kernels run when compiling is
  // over.
  return std::clamp(device.is_cuda() ? processors - 1 : processors, 1, kMostCompileThreads);
}

std::mutex& tuning_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

void refuse_tuning_in_capture(const Call& call) {
  if (is_capturing(*call.stream))
    throw_value_error(fmt::format(
        "op '{}' cannot be tuned while the stream is being captured, which would lose its measurements: tune the call "
        "before the capture, and kiln::warm_up then loads what it found",
        call.spec->name));
}

TuneReport tune_call(const Call& call, const Target& target, const TuneOptions& options) {
  const auto phase = observe_phase(ProfilePhase::tune, call.spec->name);
  const auto start = std::chrono::steady_clock::now();
  OpTuning tuning(call, target, options);
  TuningResult result = tuning.run();
  const CandidateEvidence& of_default = result.candidates[result.default_index];
  check_default_worked("op", call.spec->name, of_default);
  if (!tuning.listed().empty())
    check_some_worked(fmt::format("op '{}'", call.spec->name), tuning.listed(), result.candidates);
  TuneReport report{tuning.entry_of(result), std::move(result), tuning.cost(), tuning.skipped(), std::nullopt, 0};
  if (options.record && of_default.samples > 0) {
    // A search that was stopped must not take the place of one that was not.
    const auto conflict =
        report.result.complete ? EntrySet::Conflict::offered_wins : EntrySet::Conflict::better_evidence;
    report.recorded = TuningDatabase::process().record({report.entry}, conflict).front();
    forget_tuned_plans();
  }
  report.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace detail

}  // namespace kiln
