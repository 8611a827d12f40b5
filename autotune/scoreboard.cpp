#include "autotune/scoreboard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kiln {

Scoreboard::Scoreboard(std::vector<Candidate> candidates, std::size_t default_index, Precision precision,
                       double unseen_us)
    : default_index_(default_index), precision_(precision), unseen_us_(unseen_us) {
  records_.reserve(candidates.size());
  for (Candidate& candidate : candidates) {
    Record record{
        .candidate = std::move(candidate), .reason = {}, .warm_up = WarmUp(precision), .relative = {}, .interval = {}};
    if (!record.candidate.ruled_out.empty() && records_.size() != default_index) {
      record.outcome = Outcome::ruled_out;
      record.reason = record.candidate.ruled_out;
    }
    records_.push_back(std::move(record));
  }
}

bool Scoreboard::is_live(std::size_t candidate) const {
  return outcome(candidate) == Outcome::untried || outcome(candidate) == Outcome::measured;
}

std::vector<std::size_t> Scoreboard::ranking() const {
  std::vector<std::size_t> ranked;
  for (std::size_t i = 0; i < size(); ++i)
    if (is_live(i) && is_measured(i)) ranked.push_back(i);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](std::size_t a, std::size_t b) { return relative(a).median() < relative(b).median(); });
  return ranked;
}

std::vector<std::size_t> Scoreboard::finalists(const FinalistOptions& options) const {
  std::vector<std::size_t> ranked = ranking();
  std::erase(ranked, default_index_);
  double limit = 0, round_us = reference_us_;
  std::size_t count = 0;
  for (; count < std::min(ranked.size(), options.most); ++count) {
    const std::size_t candidate = ranked[count];
    if (count == 0) limit = interval(candidate).high + unseen();
    round_us += relative(candidate).median() * reference_us_;
    if (count >= options.fewest && (interval(candidate).low > limit || round_us > options.most_round_us)) break;
  }
  ranked.resize(count);
  return ranked;
}

double Scoreboard::cutoff() const {
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < size(); ++i)
    if (is_live(i)) lowest = std::min(lowest, interval(i).high + (i == default_index_ ? unseen() : 0));
  return lowest + precision_.width_at(lowest, reference_us_);
}

bool Scoreboard::is_precise(std::size_t candidate) const {
  const SampleSet& samples = relative(candidate);
  return !samples.empty() && interval(candidate).width() <= precision_.width_at(samples.median(), reference_us_);
}

void Scoreboard::add(std::size_t candidate, std::span<const double> relative, double scale_error) {
  Record& record = records_[candidate];
  record.relative.add(relative);
  ++record.turns;
  record.squared_scale_errors += scale_error * scale_error;
  const double error = std::sqrt(record.squared_scale_errors) / record.turns;
  const Interval by_samples = record.relative.median_interval();
  record.interval = {by_samples.low * (1 - error), by_samples.high * (1 + error)};
  if (record.outcome == Outcome::untried) record.outcome = Outcome::measured;
}

void Scoreboard::close(std::size_t candidate, Outcome outcome, std::string reason) {
  records_[candidate].outcome = outcome;
  records_[candidate].reason = std::move(reason);
}

void Scoreboard::cut_slow() {
  const double limit = cutoff();
  for (std::size_t i = 0; i < size(); ++i) {
    if (i == default_index_ || !is_live(i)) continue;
    const double low = interval(i).low;
    if (low > limit)
      close(i, Outcome::cut,
            fmt::format("takes at least {:.3g} us, and the best at most {:.3g} us", low * reference_us_,
                        limit * reference_us_));
  }
}

}  // namespace kiln
