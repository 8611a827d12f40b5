#include "autotune/reference_scale.hpp"

#include <algorithm>

namespace kiln {
namespace {

constexpr std::size_t kMostTurns = 16;
/// Known this well, the last two turns are better than more: the choice of the luckiest of several would err.
constexpr double kClearError = 0.03;

}  // namespace

void ReferenceScale::add_turn(std::span<const double> samples_us) {
  last_turns_us_.emplace_back(samples_us.begin(), samples_us.end());
  if (last_turns_us_.size() > kMostTurns) last_turns_us_.pop_front();
  all_us_.add(samples_us);
  if (last_turns_us_.size() < 2) return;
  // Medians of ten short times differ by several percent on a machine that stands still, so that ends of intervals are
  // compared.
  const Level now = between_turns();
  lowest_us_ = std::min(lowest_us_, now.us * (1 + now.error));
  highest_us_ = std::max(highest_us_, now.us * (1 - now.error));
}

void ReferenceScale::start_anew() {
  const double seen = drift();
  *this = {};
  earlier_drift_ = seen;
}

double ReferenceScale::drift() const noexcept {
  return std::max(earlier_drift_, highest_us_ > lowest_us_ ? highest_us_ / lowest_us_ - 1 : 0);
}

ReferenceScale::Level ReferenceScale::level_by(std::size_t turns) const {
  SampleSet samples;
  const std::size_t first = last_turns_us_.size() - std::min(turns, last_turns_us_.size());
  for (std::size_t turn = first; turn < last_turns_us_.size(); ++turn) samples.add(last_turns_us_[turn]);
  return {samples.median(), std::min(1.0, samples.median_interval().width() / 2 / samples.median())};
}

ReferenceScale::Level ReferenceScale::between_turns() const {
  return level_by(2);
}

ReferenceScale::Level ReferenceScale::level() const {
  Level best = between_turns();
  for (std::size_t turns = 4; turns <= last_turns_us_.size() && best.error > kClearError; turns *= 2)
    if (const Level wider = level_by(turns); wider.error < best.error) best = wider;
  return best;
}

}  // namespace kiln
