#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>

#include "autotune/entry_set.hpp"
#include "autotune/tuner.hpp"
#include "autotune/tuning_entry.hpp"
#include "ops/op_spec.hpp"
#include "runtime/stream.hpp"

namespace kiln {

struct Call;
struct DeviceInfo;

struct TuneOptions {
  std::optional<Stream> stream = {};  ///< unset: the device's default stream
  /// To choose from, beside the default; tunables that one leaves out have the default's values. Empty: the whole
  /// space. All of them are tried, and a search of the whole space is not spared by one of these.
  std::vector<Config> configs = {};
  StrategyKind strategy = StrategyKind::automatic;
  std::uint64_t seed = 0;  ///< of strategies that sample the space
  double budget_s = 30;
  /// A candidate that takes this long, beyond twenty times what the default would take, counts as hung.
  double least_time_limit_s = 5;
  std::optional<MeasuringPolicy> measuring = {};  ///< unset: default_measuring_policy
  /// Keep the result: in the database on disk, and in this process at once.
  bool record = true;
  /// Go on from what the database knows of a search that was stopped less than a day ago, with the same compiler and
  /// driver: failures are not tried again.
  bool resume = true;
  std::function<void(const TuningProgress&)> progress = {};  ///< ten times a second at most
  /// A candidate does not return. Called on another thread, after what is known was recorded; a GPU kernel that never
  /// ends can only be left by ending the process.
  std::function<void(const TuningEntry&)> hung = {};
  std::stop_token stop = {};
};

struct TuneReport {
  TuningEntry entry;
  TuningResult result;
  Cost cost;
  std::optional<SkippedWork> skipped;    ///< of `cost`; nullopt where no input selects work
  std::optional<MergeOutcome> recorded;  ///< unless `record` was off
  double elapsed_s = 0;
};

namespace detail {

/// The measurements of one process take turns: whoever tunes holds this.
std::mutex& tuning_mutex();
/// How to search for the best of so many candidates that may be: StrategyKind::automatic, decided.
StrategyOptions strategy_of(const TuneOptions& options, Device device, std::size_t eligible);
/// Threads that compile candidates of calls on `device`, on a machine of so many processors.
int compile_threads(Device device, int processors);
/// Where a search is left before any block of it is complete, the samples that were taken of the default: an entry is
/// nothing without a time.
void give_default_a_time(TuningResult& result, const SampleSet& default_us);
/// Whether a search that left this entry may be gone on with.
bool is_resumable(const TuningEntry& entry);
/// The device's driver as entries name it: "13.0"; empty on the CPU.
std::string driver_text(const DeviceInfo& info);
/// UsageError(value) while the stream is being captured.
void refuse_tuning_in_capture(const Call& call);
/// Tunes a call, under the mutex and inside a TuningScope. As tune_op otherwise.
TuneReport tune_call(const Call& call, const Target& target, const TuneOptions& options);

}  // namespace detail

}  // namespace kiln
