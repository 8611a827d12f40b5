#include "autotune/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "autotune/strategies.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

/// The default's samples at each end of a block, which together are the block's scale, and those of a turn in the
/// playoff.
constexpr int kTurnSamples = 5;
/// Fewer when the default takes so long that these would take longer.
constexpr double kTurnUs = 100'000;
/// Both ends together still have an interval.
constexpr int kFewestReferenceSamples = (kFewestForInterval + 1) / 2;
/// Candidates between two turns of the default: more would let the clock drift further, fewer would spend more time on
/// the default than the scale's noise is worth.
constexpr std::size_t kTurnsPerBlock = 8;
/// Nor longer between them than this many times the default's time: a new turn starts only before that.
constexpr double kBlockLength = 64;
/// A candidate is cut in its warm-up when its first call takes 64 times what the best takes, its first two 8 times, or
/// its first three 1.5 times: the slowest candidates cost most, no warm-up makes a kernel that much faster, and three
/// calls in a row are not all disturbed.
constexpr std::array<double, WarmUp::kWindow> kHopeless = {64, 8, 1.5};

std::vector<double> divided(std::span<const double> samples, double divisor) {
  std::vector<double> quotients;
  for (const double sample : samples) quotients.push_back(sample / divisor);
  return quotients;
}

}  // namespace

Search::Search(std::vector<Candidate> candidates, std::size_t default_index, SearchOptions options)
    : options_(std::move(options)),
      board_(std::move(candidates), default_index, options_.playoff.precision, options_.strategy.finalists.unseen_us),
      cutoff_(std::numeric_limits<double>::infinity()) {
  if (default_index >= board_.size())
    throw_value_error(fmt::format("default_index={} of {} candidates; expected the place of the default among them",
                                  default_index, board_.size()));
  if (options_.strategy.finalists.fewest < 1)
    throw_value_error("finalists.fewest=0; expected 1 or more candidates for the playoff");
  std::map<std::string, std::size_t> by_config;
  for (std::size_t i = 0; i < board_.size(); ++i) by_config.emplace(to_string(board_.config(i)), i);
  for (const CandidateEvidence& evidence : options_.earlier) {
    const auto found = by_config.find(to_string(evidence.config));
    if (found == by_config.end() || found->second == default_index) continue;
    if (evidence.outcome == Outcome::untried || evidence.outcome == Outcome::measured) continue;
    board_.close(found->second, evidence.outcome, evidence.reason);
    earlier_[found->second] = evidence;
  }
  strategy_ = make_strategy(options_.strategy, board_);
  // Before the default was measured, so that who comes first is compiled while it is.
  for (const Visit& visit : strategy_->next_visits(board_)) queue_.push_back(visit);
  advance();
}

const Search::Request& Search::request() const {
  if (!request_) throw InternalError("a search that is finished requests nothing");
  return *request_;
}

void Search::report(std::size_t candidate, std::span<const double> samples_us) {
  const Request asked = request();
  if (candidate != asked.candidate)
    throw_value_error(fmt::format("samples of candidate {} were reported; expected those of candidate {}", candidate,
                                  asked.candidate));
  if (samples_us.empty() || samples_us.size() > static_cast<std::size_t>(asked.samples))
    throw_value_error(fmt::format("{} samples of candidate {} were reported; expected 1 to {}", samples_us.size(),
                                  candidate, asked.samples));
  for (const double sample_us : samples_us)
    if (!std::isfinite(sample_us) || sample_us <= 0)
      throw_value_error(
          fmt::format("a sample of candidate {} is {} us; expected a finite time above 0", candidate, sample_us));
  samples_ += static_cast<int>(samples_us.size());
  for (const double sample_us : samples_us) board_.add_spent_us(candidate, sample_us);
  if (candidate == board_.default_index())
    take_reference(samples_us);
  else
    take_turn(samples_us);
  advance();
}

void Search::report_failure(std::size_t candidate, Outcome outcome, std::string reason) {
  if (!is_failure(outcome)) throw InternalError(fmt::format("'{}' is no failure", to_string(outcome)));
  if (candidate != request().candidate)
    throw_value_error(fmt::format("a failure of candidate {} was reported; the request is for candidate {}", candidate,
                                  request().candidate));
  take_out(candidate, outcome, std::move(reason));
  if (candidate == board_.default_index())
    phase_ = Phase::finished;
  else
    end_turn();
  advance();
}

void Search::take_out(std::size_t candidate, Outcome outcome, std::string reason) {
  if (candidate == board_.default_index()) default_failure_ = reason;
  board_.close(candidate, outcome, std::move(reason));
  if (playoff_) playoff_->drop(candidate);
}

void Search::wrap_up() {
  if (phase_ == Phase::playoff || phase_ == Phase::finished) return;
  wrapped_up_ = true;
  queue_.clear();
  if (!begins_turn()) return;
  end_turn();
  advance();
}

void Search::advance() {
  request_.reset();
  while (phase_ != Phase::finished) {
    if (phase_ == Phase::warming_up) return ask(board_.default_index(), WarmUp::kWindow);
    if (!board_.is_measured(board_.default_index())) return ask_reference();
    if (turn_is_open_) {
      const Turn& turn = block_.back();
      return ask(turn.visit.candidate, samples_to_ask(turn));
    }
    if (!scale_.has_turns()) return ask_reference();
    const bool has_room = phase_ == Phase::playoff ||
                          (block_.size() < kTurnsPerBlock && block_us_ < kBlockLength * board_.reference_us());
    if (has_room && start_next_turn()) continue;
    if (!block_.empty()) return ask_reference();
    plan_more();
  }
}

void Search::ask(std::size_t candidate, int samples) {
  const double relative = board_.is_measured(candidate) ? board_.relative(candidate).median() : 1;
  request_ = Request{candidate, samples, relative * board_.reference_us() * samples, {}};
  if (playoff_) request_->round = playoff_->rounds();
}

void Search::ask_reference() {
  ask(board_.default_index(), std::max(kFewestReferenceSamples, samples_per_turn()));
}

int Search::samples_per_turn() const {
  return std::clamp(static_cast<int>(kTurnUs / board_.reference_us()), 1, kTurnSamples);
}

bool Search::start_next_turn() {
  while (!queue_.empty()) {
    const Visit visit = queue_.front();
    queue_.pop_front();
    if (!board_.is_live(visit.candidate)) continue;
    if (const double bound_us = board_.lower_bound_us(visit.candidate); bound_us > best_us()) {
      board_.close(
          visit.candidate, Outcome::ruled_out,
          fmt::format("cannot take less than {:.3g} us, and the best takes at most {:.3g} us", bound_us, best_us()));
      continue;
    }
    block_.push_back({visit});
    turn_is_open_ = true;
    return true;
  }
  return false;
}

void Search::plan_more() {
  if (phase_ == Phase::screening) {
    board_.cut_slow();
    if (!wrapped_up_)
      for (const Visit& visit : strategy_->next_visits(board_)) queue_.push_back(visit);
    if (queue_.empty()) start_playoff();
  } else if (playoff_->finished()) {
    phase_ = Phase::finished;
  } else {
    for (const std::size_t finalist : playoff_->next_round()) queue_.push_back({finalist, samples_per_turn()});
  }
}

void Search::start_playoff() {
  std::vector<std::size_t> finalists = board_.finalists(options_.strategy.finalists);
  std::erase_if(finalists,
                [&](std::size_t candidate) { return board_.interval(candidate).low >= 1 + board_.unseen(); });
  PlayoffOptions options = options_.playoff;
  options.least_gain = least_gain();
  playoff_.emplace(std::move(finalists), options);
  phase_ = Phase::playoff;
  if (!playoff_->finished()) scale_.start_anew();
}

double Search::best_us() const {
  return cutoff_ * scale_.level().us;
}

int Search::samples_to_ask(const Turn& turn) const {
  const std::size_t candidate = turn.visit.candidate;
  if (board_.warm_up(candidate).stable()) return turn.visit.samples - static_cast<int>(turn.samples_us.size());
  const auto begun = static_cast<int>(turn.window_us.size());
  // One call at a time as long as the next one may be the last.
  const bool is_new = board_.warm_up_samples(candidate) == 0;
  if (is_new && (begun == 0 || turn.window_us.front() > kHopeless[1] * best_us())) return 1;
  return WarmUp::kWindow - begun;
}

void Search::take_reference(std::span<const double> samples_us) {
  if (phase_ == Phase::playoff && !scale_.has_turns()) {
    scale_.add_turn(samples_us);
    board_.set_reference_us(scale_.median_us());
    board_.add(board_.default_index(), divided(samples_us, scale_.median_us()), 0);
    return;
  }
  if (phase_ != Phase::warming_up) return close_block(samples_us);
  const std::size_t reference = board_.default_index();
  if (!board_.warm_up(reference).add(samples_us)) {
    board_.add_warm_up_samples(reference, static_cast<int>(samples_us.size()));
    return;
  }
  scale_.add_turn(samples_us);
  board_.set_reference_us(scale_.median_us());
  board_.add(reference, divided(samples_us, scale_.median_us()), 0);
  phase_ = Phase::screening;
}

void Search::take_turn(std::span<const double> samples_us) {
  Turn& turn = block_.back();
  const std::size_t candidate = turn.visit.candidate;
  block_us_ += std::accumulate(samples_us.begin(), samples_us.end(), 0.0);
  if (board_.warm_up(candidate).stable())
    turn.samples_us.insert(turn.samples_us.end(), samples_us.begin(), samples_us.end());
  else if (warms_up(turn, samples_us))
    return;
  turn_is_open_ = board_.is_live(candidate) && board_.spent_us(candidate) < options_.strategy.most_spent_us &&
                  turn.samples_us.size() < static_cast<std::size_t>(turn.visit.samples);
}

/// Takes samples of a candidate whose times were not stable; true as long as they are not. Those that count, because
/// times are stable or slow enough to end the race, become the turn's.
bool Search::warms_up(Turn& turn, std::span<const double> samples_us) {
  const std::size_t candidate = turn.visit.candidate;
  turn.window_us.insert(turn.window_us.end(), samples_us.begin(), samples_us.end());
  const double fastest_us = *std::min_element(turn.window_us.begin(), turn.window_us.end());
  const bool is_full = turn.window_us.size() == kHopeless.size();
  if (fastest_us > kHopeless[turn.window_us.size() - 1] * best_us())
    board_.close(candidate, Outcome::cut,
                 fmt::format("its first calls take at least {:.3g} us, and the best takes at most {:.3g} us",
                             fastest_us, best_us()));
  else if (!is_full)
    return true;
  std::vector<double> window_us = std::exchange(turn.window_us, {});
  if (board_.is_live(candidate) && !board_.warm_up(candidate).add(window_us)) {
    board_.add_warm_up_samples(candidate, static_cast<int>(window_us.size()));
    return true;
  }
  turn.samples_us = std::move(window_us);
  return false;
}

void Search::end_turn() {
  block_.pop_back();
  turn_is_open_ = false;
}

void Search::close_block(std::span<const double> closing_us) {
  scale_.add_turn(closing_us);
  const ReferenceScale::Level level = phase_ == Phase::playoff ? scale_.between_turns() : scale_.level();
  board_.set_reference_us(scale_.median_us());
  board_.add(board_.default_index(), divided(closing_us, level.us), level.error);

  std::map<std::size_t, double> round;
  for (const Turn& turn : block_) {
    board_.add(turn.visit.candidate, divided(turn.samples_us, level.us), level.error);
    round[turn.visit.candidate] = SampleSet(turn.samples_us).median() / level.us;
  }
  if (phase_ == Phase::playoff) {
    playoff_->add_round(round, board_.reference_us());
  } else {
    cutoff_ = board_.cutoff();
  }
  block_.clear();
  block_us_ = 0;
}

}  // namespace kiln
