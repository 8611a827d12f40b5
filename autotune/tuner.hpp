#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "autotune/evidence.hpp"
#include "autotune/search.hpp"
#include "core/errors.hpp"

namespace kiln {

/// Thrown by a tuner's callbacks: this candidate cannot be chosen, and why.
class CandidateFailure : public Error {
 public:
  enum class After {
    go_on,
    /// No candidate can be measured any more: a GPU that faulted takes no more launches from this process.
    stop,
  };
  CandidateFailure(Outcome outcome, const std::string& reason, After after = After::go_on)
      : Error(reason), outcome_(outcome), after_(after) {}
  Outcome outcome() const noexcept { return outcome_; }
  After after() const noexcept { return after_; }

 private:
  Outcome outcome_;
  After after_;
};

struct MeasureRequest {
  std::size_t candidate = 0;
  int samples = 0;
  /// A candidate that needs longer counts as hung. A callback that can give up by itself does so then and throws
  /// CandidateFailure(Outcome::hung). Infinite for the default until its time is known.
  double time_limit_s = 0;
  /// As Search::Request has it.
  std::optional<int> round = {};
};

struct TuningProgress {
  Search::Phase phase = Search::Phase::warming_up;
  std::size_t candidates = 0;
  std::size_t tried = 0;   ///< their outcome is known, or they were measured at least once
  std::size_t failed = 0;  ///< of those tried
  double default_us = 0;
  Config best;  ///< so far
  double best_us = 0;
  double elapsed_s = 0;
  double budget_s = 0;
};

/// What a tuner has done to candidates, which are indices into the list it was given. CompileError and DeviceError, or
/// CandidateFailure from any of the first four, end a candidate; what else they throw ends the tuning.
struct TuningCallbacks {
  /// Compiles a candidate. Called on several threads at once, once for each.
  std::function<void(std::size_t candidate)> compile;
  /// Runs a candidate once, before it is measured, over inputs that are restored where the op changes them. May be
  /// empty.
  std::function<void(std::size_t candidate)> run;
  /// In what the output of that run differs from the default's, for which it is called first; nothing when they agree.
  /// It has no time limit, since what it takes is no candidate's: the first one may compile the comparison. May be
  /// empty.
  std::function<std::string(std::size_t candidate)> difference;
  /// Runs a candidate `samples` times, after a call or more that are not timed, and returns the times in microseconds.
  std::function<std::vector<double>(const MeasureRequest&)> measure;

  /// For progress bars: ten times a second at most, on the tuner's thread. May be empty.
  std::function<void(const TuningProgress&)> progress;
  /// A candidate does not return: called on another thread, while `run` or `measure` is still under way, with what is
  /// known so far, that candidate marked as hung, and a choice among the others: none where it is the default that
  /// hangs. If it returns after all, the tuning goes on without it; to leave a kernel behind that never returns, save
  /// the result and end the process. What this throws ends the tuning, once the candidate has returned. May be empty.
  std::function<void(const TuningResult&)> hung;
  /// Seconds from any moment; empty: the steady clock.
  std::function<double()> now_s;
};

struct TunerOptions {
  SearchOptions search;
  double budget_s = 30;
  /// The part of the budget kept for the playoff.
  double playoff_share = 0.25;
  int compile_threads = 1;
  /// Compile while candidates are measured. Not on the CPU target: compiler threads and kernels would share cores.
  bool compiles_while_measuring = true;
  /// A candidate may take this long, and kTimeLimitFactor times what it would take at the default's speed.
  double least_time_limit_s = 5;
};
inline constexpr double kTimeLimitFactor = 20;

/// Tunes: finds the fastest candidate that computes what the default computes, in about `budget_s` seconds: a turn that
/// is under way is finished, and the compilers of the default and of the first other are waited for. A stop request
/// leaves the choice that the evidence so far supports, `complete` false, and the evidence, from which
/// SearchOptions::earlier goes on. Callbacks run on the calling thread but for `compile` and `hung`. UsageError(value)
/// for options out of range.
TuningResult tune(std::vector<Candidate> candidates, std::size_t default_index, const TuningCallbacks& callbacks,
                  const TunerOptions& options = {}, const std::stop_token& stop = {});

}  // namespace kiln
