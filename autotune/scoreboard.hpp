#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "autotune/candidate.hpp"
#include "autotune/evidence.hpp"
#include "autotune/warm_up.hpp"

namespace kiln {

/// How many candidates a playoff takes: the fewest in any case, more where they cannot be told from the best.
struct FinalistOptions {
  std::size_t fewest = 6;
  std::size_t most = 6;
  /// By so much a candidate may stand otherwise in the playoff than before it, beside the others and beside the
  /// default, where a playoff measures otherwise: through copies of each kernel, say.
  double unseen_us = 0;
  /// No more than the fewest where one call of each takes longer: a playoff has dozens of rounds of several calls.
  double most_round_us = 20'000;
};

/// Where a playoff goes through copies of each candidate, for calls of microseconds: copies lie apart by parts of one,
/// and that much a candidate may look worse than it is.
inline constexpr FinalistOptions kFinalistsByCopies = {.most = 24, .unseen_us = 0.6};

/// What a search knows of its candidates. Their times are relative to the default's, measured just before and after:
/// 0.8 takes a fifth less time. Strategies read it to see whom to measure next.
class Scoreboard {
 public:
  Scoreboard(std::vector<Candidate> candidates, std::size_t default_index, Precision precision, double unseen_us = 0);

  std::size_t size() const noexcept { return records_.size(); }
  std::size_t default_index() const noexcept { return default_index_; }
  const Config& config(std::size_t candidate) const { return records_[candidate].candidate.config; }
  double lower_bound_us(std::size_t candidate) const { return records_[candidate].candidate.lower_bound_us; }
  Outcome outcome(std::size_t candidate) const { return records_[candidate].outcome; }
  const std::string& reason(std::size_t candidate) const { return records_[candidate].reason; }
  /// Not failed, cut, or ruled out.
  bool is_live(std::size_t candidate) const;
  bool is_measured(std::size_t candidate) const { return !records_[candidate].relative.empty(); }
  const SampleSet& relative(std::size_t candidate) const { return records_[candidate].relative; }
  WarmUp& warm_up(std::size_t candidate) { return records_[candidate].warm_up; }
  const WarmUp& warm_up(std::size_t candidate) const { return records_[candidate].warm_up; }
  int warm_up_samples(std::size_t candidate) const { return records_[candidate].warm_up_samples; }
  double spent_us(std::size_t candidate) const { return records_[candidate].spent_us; }
  /// Of the default; what a relative time of 1 lasts.
  double reference_us() const { return reference_us_; }

  /// 95%, of the median: by its samples, widened by the error of what they were divided by, which all samples of a turn
  /// share.
  Interval interval(std::size_t candidate) const { return records_[candidate].interval; }
  /// Live and measured, the lowest median first; candidates that share it in their own order.
  std::vector<std::size_t> ranking() const;
  /// The first of the ranking, without the default: those that a playoff takes.
  std::vector<std::size_t> finalists(const FinalistOptions& options) const;
  /// Above it a candidate is slower than the best beyond doubt: the lowest upper end of any interval, the default's set
  /// off by `unseen_us`, widened by the precision. Infinite while no candidate has an interval.
  double cutoff() const;
  /// The interval of its median is as narrow as the precision asks for.
  bool is_precise(std::size_t candidate) const;

  void set_reference_us(double reference_us) { reference_us_ = reference_us; }
  void add_warm_up_samples(std::size_t candidate, int samples) { records_[candidate].warm_up_samples += samples; }
  void add_spent_us(std::size_t candidate, double us) { records_[candidate].spent_us += us; }
  /// FinalistOptions::unseen_us, as a share of the default's time.
  double unseen() const { return reference_us_ > 0 ? unseen_us_ / reference_us_ : 0; }
  /// The samples of one turn. `scale_error` is how far, as a share, what they were divided by may be off.
  void add(std::size_t candidate, std::span<const double> relative, double scale_error);
  /// Ends a candidate's race.
  void close(std::size_t candidate, Outcome outcome, std::string reason);
  /// Cuts every candidate whose interval lies above the cutoff. The default stays: the others are compared with it.
  void cut_slow();

 private:
  struct Record {
    Candidate candidate;
    Outcome outcome = Outcome::untried;
    std::string reason;
    WarmUp warm_up;
    int warm_up_samples = 0;
    double spent_us = 0;
    SampleSet relative;
    Interval interval;
    int turns = 0;
    double squared_scale_errors = 0;  ///< their sum over the turns
  };
  std::vector<Record> records_;
  std::size_t default_index_;
  Precision precision_;
  double unseen_us_;
  double reference_us_ = 0;
};

}  // namespace kiln
