#include "autotune/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "autotune/compile_ahead.hpp"
#include "autotune/watchdog.hpp"

namespace kiln {
namespace {

/// Candidates that are compiled ahead, for each thread: enough to ride out one that compiles slowly, few enough that
/// little is compiled in vain when the search turns elsewhere.
constexpr std::size_t kAheadPerThread = 4;
constexpr std::chrono::milliseconds kProgressInterval{100};

double steady_now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void validate(const TuningCallbacks& callbacks, const TunerOptions& options) {
  if (!callbacks.compile || !callbacks.measure)
    throw_value_error("a tuner needs the callbacks 'compile' and 'measure'");
  if (!(options.budget_s > 0))
    throw_value_error(fmt::format("budget_s={}; expected a number of seconds above 0", options.budget_s));
  if (!(options.playoff_share >= 0 && options.playoff_share < 1))
    throw_value_error(fmt::format("playoff_share={}; expected 0 or more and less than 1", options.playoff_share));
  if (!(options.least_time_limit_s > 0))
    throw_value_error(
        fmt::format("least_time_limit_s={}; expected a number of seconds above 0", options.least_time_limit_s));
}

/// The line of a compiler's log that says what is wrong: evidence is for reading, and a log can have pages.
std::string first_error(const std::string& log) {
  std::size_t begin = log.find("error");
  if (begin == std::string::npos) begin = 0;
  begin = log.rfind('\n', begin) == std::string::npos ? 0 : log.rfind('\n', begin) + 1;
  return log.substr(begin, log.find('\n', begin) - begin);
}

class Tuner {
 public:
  Tuner(std::vector<Candidate> candidates, std::size_t default_index, const TuningCallbacks& callbacks,
        const TunerOptions& options)
      : callbacks_(callbacks),
        options_(options),
        checked_(candidates.size()),
        search_(std::move(candidates), default_index, options.search),
        screening_end_s_(options.budget_s * (1 - options.playoff_share)),
        compiled_(callbacks.compile, options.compile_threads),
        watchdog_([this] { report_hung(); }) {}

  TuningResult run(const std::stop_token& stop) {
    start_s_ = now_s();
    while (!search_.finished() && !stop.stop_requested() && !cannot_go_on_) {
      const double elapsed_s = now_s() - start_s_, playoff_s = options_.budget_s * options_.playoff_share;
      if (tried_another_ && elapsed_s >= screening_end_s_ + playoff_s) break;
      if (tried_another_ && elapsed_s >= screening_end_s_) search_.wrap_up();
      if (search_.finished()) break;  // where nothing is left for a playoff
      if (is_compiled(stop)) answer(search_.request());
      report_progress();
    }
    return search_.result();
  }

 private:
  double now_s() const { return callbacks_.now_s ? callbacks_.now_s() : steady_now_s(); }

  double time_limit_s(const Search::Request& request) const {
    if (request.expected_us <= 0) return std::numeric_limits<double>::infinity();
    return options_.least_time_limit_s + kTimeLimitFactor * request.expected_us * 1e-6;
  }

  void answer(const Search::Request& request) {
    const std::size_t candidate = request.candidate;
    running_ = candidate;
    if (!tried_another_ && candidate != search_.board().default_index()) {
      // Compilers may take longer than the budget: one that ended before there was anything to compare the default with
      // would be spent for nothing.
      tried_another_ = true;
      screening_end_s_ = std::max(screening_end_s_, now_s() - start_s_ + options_.budget_s * options_.playoff_share);
    }
    try {
      compiled_.wait_for(candidate, {}, {});  // it is; this throws what came of it
      const double limit_s = time_limit_s(request);
      check(candidate, limit_s);
      std::vector<double> samples_us;
      within(limit_s, [&] { samples_us = callbacks_.measure({candidate, request.samples, limit_s, request.round}); });
      search_.report(candidate, samples_us);
    } catch (const CandidateFailure& failure) {
      cannot_go_on_ = failure.after() == CandidateFailure::After::stop;
      search_.report_failure(candidate, failure.outcome(), failure.what());
    } catch (const CompileError& error) {
      search_.report_failure(candidate, Outcome::uncompiled, first_error(error.log()));
    } catch (const DeviceError& error) {
      search_.report_failure(candidate, Outcome::unlaunched, error.what());
    }
  }

  /// Whether the request's candidate is compiled; its turn may have become another's, which is. Waits a little while it
  /// is not: between two of these callers see the progress, where they ask for a stop, and the budget may end.
  bool is_compiled(const std::stop_token& stop) {
    const std::size_t ahead = kAheadPerThread * static_cast<std::size_t>(options_.compile_threads);
    const std::vector<std::size_t> next = search_.upcoming(ahead);
    if (!options_.compiles_while_measuring) return is_all_compiled(next, stop);
    compiled_.want(search_.upcoming_and_likely(ahead));
    const std::span<const std::size_t> choices = std::span(next).first(search_.begins_turn() ? next.size() : 1);
    const std::optional<std::size_t> done = compiled_.wait_for_any(choices, kProgressInterval, stop);
    if (!done) return false;
    if (*done != next.front()) search_.prefer(*done);
    return !search_.finished() && search_.request().candidate == *done;
  }

  /// The same where compilers and kernels share cores: all that comes next is compiled before any of it is measured,
  /// whatever the budget, which could otherwise end with nothing measured. The default, which must be, comes alone.
  bool is_all_compiled(std::span<const std::size_t> next, const std::stop_token& stop) {
    if (compiled_.is_done(next.front())) return true;
    compiled_.want(search_.phase() == Search::Phase::warming_up ? next.first(1) : next);
    while (!compiled_.wait_for_all(kProgressInterval, stop)) {
      if (stop.stop_requested()) return false;
      report_progress();
    }
    return true;
  }

  void check(std::size_t candidate, double limit_s) {
    if (checked_[candidate]) return;
    if (callbacks_.run) within(limit_s, [&] { callbacks_.run(candidate); });
    const std::string difference = callbacks_.difference ? callbacks_.difference(candidate) : std::string();
    if (!difference.empty()) throw CandidateFailure(Outcome::mismatched, difference);
    checked_[candidate] = true;
  }

  /// `body`, in which nothing but the candidate runs; the watchdog sees to it that it returns.
  template <typename Body>
  void within(double limit_s, const Body& body) {
    const double begin_s = now_s();
    {
      const Watchdog::Watch watch(watchdog_, limit_s);
      body();
    }
    watchdog_.rethrow_failure();
    if (const double took_s = now_s() - begin_s; took_s > limit_s)
      throw CandidateFailure(Outcome::hung, fmt::format("took {:.3g} s, where {:.3g} s are allowed", took_s, limit_s));
  }

  /// On the watchdog's thread, while the tuner's own is inside a callback and touches nothing.
  void report_hung() {
    if (!callbacks_.hung) return;
    callbacks_.hung(search_.result_without(running_, Outcome::hung, "did not return"));
  }

  void report_progress() {
    const double elapsed_s = now_s() - start_s_;
    if (!callbacks_.progress || elapsed_s < next_progress_s_) return;
    next_progress_s_ = elapsed_s + std::chrono::duration<double>(kProgressInterval).count();
    const Scoreboard& board = search_.board();
    TuningProgress progress;
    progress.phase = search_.phase();
    progress.candidates = board.size();
    for (std::size_t i = 0; i < board.size(); ++i) {
      progress.tried += board.outcome(i) != Outcome::untried;
      progress.failed += is_failure(board.outcome(i));
    }
    progress.default_us = board.reference_us();
    if (const std::vector<std::size_t> ranking = board.ranking(); !ranking.empty()) {
      progress.best = board.config(ranking.front());
      progress.best_us = board.relative(ranking.front()).median() * board.reference_us();
    }
    progress.elapsed_s = elapsed_s;
    progress.budget_s = options_.budget_s;
    callbacks_.progress(progress);
  }

  const TuningCallbacks& callbacks_;
  const TunerOptions& options_;
  std::vector<bool> checked_;
  Search search_;
  std::size_t running_ = 0;
  bool cannot_go_on_ = false;
  bool tried_another_ = false;
  double start_s_ = 0;
  double screening_end_s_;  ///< after the start
  double next_progress_s_ = 0;
  CompileAhead compiled_;
  Watchdog watchdog_;
};

}  // namespace

TuningResult tune(std::vector<Candidate> candidates, std::size_t default_index, const TuningCallbacks& callbacks,
                  const TunerOptions& options, const std::stop_token& stop) {
  validate(callbacks, options);
  return Tuner(std::move(candidates), default_index, callbacks, options).run(stop);
}

}  // namespace kiln
