#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>

#include "autotune/entry_set.hpp"
#include "autotune/tuner.hpp"
#include "autotune/tuning_entry.hpp"
#include "registry/dispatch.hpp"

namespace kiln {

struct TuneOptions {
  std::optional<Stream> stream = {};  ///< unset: the device's default stream
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
  std::optional<MergeOutcome> recorded;  ///< unless `record` was off
  double elapsed_s = 0;
};

/// Finds the fastest config of the variant that serves a call, and records it. Candidates are compiled in parallel
/// ahead of being measured, and each one's output is compared with the default's before it is timed. The call's own
/// tensors are read only: results, and copies of inputs that the op changes, are in memory of the tuning's own. The
/// choice is the default unless another config is faster for certain. One call at a time is tuned in a process.
/// Callbacks may call ops, which TuningPolicy::first_use does not tune then.
///
/// UsageError as dispatch_gpu_op, for a budget that is not above 0, while the stream is being captured, and when called
/// from a callback of a tuning; CompileError or DeviceError when the default config itself fails.
TuneReport tune_op(std::string_view name, std::span<const TensorView> inputs, const Attributes& attributes = {},
                   const TuneOptions& options = {});

namespace detail {
/// Whether this thread runs a callback of a tuning. Its calls take what was tuned by then, for a tuning would wait for
/// the one it is in.
bool inside_tuning() noexcept;
/// For TuningPolicy::first_use: tunes a call within KILN_TUNING_BUDGET unless the database has it. What goes wrong is
/// logged, and the call goes on with the default.
void tune_at_first_use(const OpSpec& spec, const OpCall& call, Stream stream, const Target& target) noexcept;
}  // namespace detail

}  // namespace kiln
