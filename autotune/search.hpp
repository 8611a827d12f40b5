#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/candidate.hpp"
#include "autotune/evidence.hpp"
#include "autotune/playoff.hpp"
#include "autotune/reference_scale.hpp"
#include "autotune/scoreboard.hpp"
#include "autotune/strategy.hpp"

namespace kiln {

struct SearchOptions {
  StrategyOptions strategy;
  PlayoffOptions playoff;
  /// What an earlier search of the same candidates, which was stopped, found out: failures are not repeated, and what
  /// was cut or ruled out stays so. Times are measured again, since the machine may have changed.
  std::vector<CandidateEvidence> earlier;
};

/// The search for the fastest of some candidates, as a state machine: it says whom to measure, is told the times, and
/// in the end says whom to choose. It launches nothing and reads no clock; the same times lead to the same answers.
///
///     while (!search.finished()) search.report(search.request().candidate, measure(search.request()));
///
/// First the default is measured until its times are stable. Then the strategy sends candidates, a few at a time, each
/// block between two turns of the default, by which their times are divided: a clock that drifts moves both. The best
/// ones and the default meet in a playoff, which decides.
class Search {
 public:
  /// UsageError(value) without candidates or with a `default_index` beyond them.
  Search(std::vector<Candidate> candidates, std::size_t default_index, SearchOptions options = {});

  struct Request {
    std::size_t candidate = 0;
    int samples = 0;
    /// All samples together, at the candidate's own speed where it was measured, else at the default's; 0 before that
    /// is known. For watchdogs.
    double expected_us = 0;
    /// Of the playoff, from 0: what does not change by itself while a process measures can be changed with it. Nothing
    /// before the playoff.
    std::optional<int> round = {};
  };
  bool finished() const noexcept { return !request_; }
  /// InternalError when finished.
  const Request& request() const;
  /// The candidates whose turn comes next, that of the request first, each once, at most `count`: to compile them
  /// ahead. How many of these there are is known as far as the strategy has planned.
  std::vector<std::size_t> upcoming(std::size_t count) const;
  /// Those, and the candidates behind them that the strategy may ask for, as far as it can tell.
  std::vector<std::size_t> upcoming_and_likely(std::size_t count) const;
  /// Whether the request begins a candidate's turn, which any of those upcoming may have as well.
  bool begins_turn() const noexcept;
  /// Gives the turn that the request begins to `candidate`, one of those upcoming: what is compiled does not wait for
  /// what is not.
  void prefer(std::size_t candidate);

  /// Answers the request: samples in microseconds, at least one and at most as many as asked for. UsageError(value) for
  /// another candidate than the request's, for another number, and for times that are not positive and finite.
  void report(std::size_t candidate, std::span<const double> samples_us);
  /// Answers it as well: the candidate is out for good, unless it is the default, whose failure ends the search.
  void report_failure(std::size_t candidate, Outcome outcome, std::string reason);
  /// Ends the strategy, and a turn that has only begun: those measured so far go to the playoff. For when the time is
  /// nearly up.
  void wrap_up();

  enum class Phase { warming_up, screening, playoff, finished };
  Phase phase() const noexcept { return phase_; }
  const Scoreboard& board() const noexcept { return board_; }
  /// At any time; what has not been measured yet is untried.
  TuningResult result() const;
  /// The same if `candidate` failed now: it is no choice, and one among the others is. For when it has not returned.
  TuningResult result_without(std::size_t candidate, Outcome outcome, std::string reason) const;

 private:
  /// Of what is known, to conclude something else from: a copy shares the strategy, and so must not go on.
  Search(const Search&) = default;

  /// A candidate's turn within a block.
  struct Turn {
    Visit visit;
    std::vector<double> samples_us = {};
    std::vector<double> window_us = {};  ///< of its warm-up, until it is full
  };

  /// A failure of a candidate, but for the turn that it ends.
  void take_out(std::size_t candidate, Outcome outcome, std::string reason);
  void advance();
  void ask(std::size_t candidate, int samples);
  void ask_reference();
  int samples_per_turn() const;
  bool start_next_turn();
  void plan_more();
  void start_playoff();
  /// Without what it measured.
  void end_turn();
  void take_reference(std::span<const double> samples_us);
  void take_turn(std::span<const double> samples_us);
  bool warms_up(Turn& turn, std::span<const double> samples_us);
  int samples_to_ask(const Turn& turn) const;
  /// What the best takes at most, at the machine's present speed.
  double best_us() const;
  void close_block(std::span<const double> closing_us);
  std::optional<std::size_t> winner() const;
  /// What the winner must save, on a machine that moved as much as this one did.
  double least_gain() const;
  std::string verdict(const TuningResult& result) const;
  /// Whether the strategy has passed over candidates that may be the best.
  bool leaves_some() const;
  CandidateEvidence evidence_of(std::size_t candidate) const;

  SearchOptions options_;
  Scoreboard board_;
  std::shared_ptr<Strategy> strategy_;
  std::optional<Playoff> playoff_;
  Phase phase_ = Phase::warming_up;
  std::optional<Request> request_;
  std::deque<Visit> queue_;
  ReferenceScale scale_;
  std::vector<Turn> block_;
  double block_us_ = 0;
  bool turn_is_open_ = false;  ///< the block's last turn is not over
  bool wrapped_up_ = false;
  std::string default_failure_;
  double cutoff_;  ///< the scoreboard's after the last block
  std::map<std::size_t, CandidateEvidence> earlier_;
  int samples_ = 0;
};

}  // namespace kiln
