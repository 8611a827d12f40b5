// What a search concludes; search.cpp holds how it goes about it.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/search.hpp"

namespace kiln {
namespace {

Interval scaled(Interval interval, double factor) {
  return {interval.low * factor, interval.high * factor};
}

/// "12.3% less time than the default (95%: 11.9% to 12.8%)".
std::string gain_text(Interval relative, double median) {
  return fmt::format("{:.1f}% less time than the default (95%: {:.1f}% to {:.1f}%)", 100 * (1 - median),
                     100 * (1 - relative.high), 100 * (1 - relative.low));
}

}  // namespace

double Search::least_gain() const {
  const PlayoffOptions& options = options_.playoff;
  return std::min(options.least_gain + options.gain_per_drift * scale_.drift(),
                  std::max(options.least_gain, options.most_asked_for_drift));
}

std::optional<std::size_t> Search::winner() const {
  if (!default_failure_.empty()) return std::nullopt;
  if (playoff_ && (phase_ == Phase::finished || static_cast<std::size_t>(playoff_->rounds()) >= kFewestForInterval))
    return playoff_->winner();
  // Stopped before the playoff: only what is faster beyond the default's own noise counts.
  const std::vector<std::size_t> ranking = board_.ranking();
  const double default_low = board_.interval(board_.default_index()).low;
  if (!ranking.empty() && board_.interval(ranking.front()).high < default_low * (1 - least_gain()))
    return ranking.front();
  return std::nullopt;
}

CandidateEvidence Search::evidence_of(std::size_t candidate) const {
  if (const auto found = earlier_.find(candidate); found != earlier_.end()) return found->second;
  CandidateEvidence evidence;
  evidence.config = board_.config(candidate);
  evidence.outcome = board_.outcome(candidate);
  evidence.reason = board_.reason(candidate);
  evidence.warm_up_samples = board_.warm_up_samples(candidate);
  const SampleSet& samples = board_.relative(candidate);
  evidence.samples = static_cast<int>(samples.size());
  if (samples.empty()) return evidence;
  evidence.outliers = samples.outliers();
  double median = samples.median();
  evidence.relative = board_.interval(candidate);
  if (playoff_ && playoff_->contains(candidate) && playoff_->times(candidate).size() >= kFewestForInterval) {
    median = SampleSet(playoff_->times(candidate)).median();
    evidence.relative = playoff_->interval(candidate);
  }
  evidence.median_us = median * board_.reference_us();
  evidence.interval_us = scaled(evidence.relative, board_.reference_us());
  return evidence;
}

std::string Search::verdict(const TuningResult& result) const {
  if (!default_failure_.empty())
    return fmt::format("the default failed, so there is nothing to compare with: {}", default_failure_);
  const auto count = [&](Outcome outcome) {
    return std::count_if(result.candidates.begin(), result.candidates.end(),
                         [&](const CandidateEvidence& evidence) { return evidence.outcome == outcome; });
  };
  const auto all = static_cast<std::ptrdiff_t>(board_.size());
  const auto untried = count(Outcome::untried), ruled_out = count(Outcome::ruled_out);
  std::string early;
  if (!result.ended)
    early = fmt::format("; stopped early, with {} of {} candidates tried", all - untried, all);
  else if (!result.complete)
    early = fmt::format("; of {} candidates the likeliest {} were tried", all - ruled_out, all - ruled_out - untried);
  const CandidateEvidence& chosen = result.candidates[result.chosen];
  if (result.chosen != result.default_index) {
    const std::string tie =
        chosen.rank == 1 ? "" : ", which ties with the fastest and comes before it in the space's order";
    return fmt::format("{} takes {}{}{}", to_string(chosen.config),
                       gain_text(chosen.relative, chosen.median_us / board_.reference_us()), tie, early);
  }
  const auto best = std::find_if(
      result.candidates.begin(), result.candidates.end(),
      [&](const CandidateEvidence& other) { return (other.rank == 1 || other.rank == 2) && &other != &chosen; });
  if (best == result.candidates.end())
    return fmt::format("the default stays: no other candidate was measured{}", early);
  return fmt::format(
      "the default stays: nothing beats it by more than noise ({}, the best of the others, takes {:.4g} times as "
      "long){}",
      to_string(best->config), best->median_us / board_.reference_us(), early);
}

bool Search::leaves_some() const {
  if (options_.strategy.kind != StrategyKind::likeliest) return false;  // others look at all, or guess the rest
  for (std::size_t i = 0; i < board_.size(); ++i)
    if (board_.outcome(i) == Outcome::untried) return true;
  return false;
}

TuningResult Search::result() const {
  TuningResult result;
  result.default_index = board_.default_index();
  result.ended = finished() && !wrapped_up_;
  result.complete = result.ended && !leaves_some();
  result.samples = samples_;
  result.reference_drift = scale_.drift();
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < board_.size(); ++i) {
    result.candidates.push_back(evidence_of(i));
    const CandidateEvidence& evidence = result.candidates.back();
    if (evidence.median_us > 0 && !is_failure(evidence.outcome)) order.push_back(i);
  }
  const auto key = [&](std::size_t candidate) {
    const bool in_playoff = playoff_ && (candidate == board_.default_index() || playoff_->contains(candidate));
    return std::pair(!in_playoff, result.candidates[candidate].median_us);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  for (std::size_t place = 0; place < order.size(); ++place)
    result.candidates[order[place]].rank = static_cast<int>(place) + 1;
  const std::optional<std::size_t> best = winner();
  result.chosen = best.value_or(board_.default_index());
  if (best) result.chosen_relative = result.candidates[*best].relative;
  result.verdict = verdict(result);
  return result;
}

TuningResult Search::result_without(std::size_t candidate, Outcome outcome, std::string reason) const {
  Search search(*this);
  search.take_out(candidate, outcome, std::move(reason));
  return search.result();
}

}  // namespace kiln
