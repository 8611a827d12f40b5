#pragma once

#include <mutex>
#include <optional>

#include "autotune/entry_set.hpp"
#include "autotune/tuner.hpp"
#include "autotune/tuning_entry.hpp"
#include "ops/op_spec.hpp"
#include "registry/tuning/tune_options.hpp"

namespace kiln {

struct Call;
struct DeviceInfo;

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
