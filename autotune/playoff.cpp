#include "autotune/playoff.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace kiln {
namespace {

// The standings are looked at after these rounds only. A look after every round would sooner or later find a difference
// where there is none: each look has its own 2.5% chance to err.
constexpr std::array kLooks = {12, 24, 48, 96, 192};

}  // namespace

Playoff::Playoff(std::vector<std::size_t> finalists, const PlayoffOptions& options)
    : options_(options), racing_(std::move(finalists)), finished_(racing_.empty()) {
  std::sort(racing_.begin(), racing_.end());
  for (const std::size_t finalist : racing_) times_[finalist];
}

std::vector<std::size_t> Playoff::next_round() const {
  std::vector<std::size_t> order = racing_;
  const auto first = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rounds_) % order.size());
  std::rotate(order.begin(), order.begin() + first, order.end());
  return order;
}

void Playoff::add_round(const std::map<std::size_t, double>& relative, double reference_us) {
  for (const auto& [candidate, time] : relative)
    if (contains(candidate)) times_[candidate].push_back(time);
  ++rounds_;
  if (std::find(kLooks.begin(), kLooks.end(), rounds_) == kLooks.end()) return;
  finished_ = settled(reference_us) || rounds_ >= kLooks.back();
}

void Playoff::drop(std::size_t candidate) {
  std::erase(racing_, candidate);
  times_.erase(candidate);
  if (racing_.empty()) finished_ = true;
}

Interval Playoff::interval(std::size_t finalist) const {
  return SampleSet(times(finalist)).median_interval();
}

std::size_t Playoff::leader() const {
  return *std::min_element(racing_.begin(), racing_.end(), [&](std::size_t a, std::size_t b) {
    return SampleSet(times(a)).median() < SampleSet(times(b)).median();
  });
}

SampleSet Playoff::paired(std::size_t a, std::size_t b) const {
  // Both took part in every round so far: who leaves does not come back.
  SampleSet ratios;
  for (std::size_t round = 0; round < times(a).size(); ++round) ratios.add(times(a)[round] / times(b)[round]);
  return ratios;
}

bool Playoff::settled(double reference_us) {
  const std::size_t fastest = leader();
  std::erase_if(racing_, [&](std::size_t finalist) {
    return finalist != fastest && paired(finalist, fastest).median_interval().low > 1 + options_.tie;
  });
  const auto is_precise = [&](const SampleSet& set) {
    return set.median_interval().width() <= options_.deciding.width_at(set.median(), reference_us);
  };
  const bool order_is_known = std::all_of(racing_.begin(), racing_.end(), [&](std::size_t finalist) {
    return finalist == fastest || is_precise(paired(finalist, fastest));
  });
  const SampleSet against_default(times(fastest));
  const bool default_stays = against_default.median_interval().low > 1 - options_.least_gain;
  const bool gain_is_known = is_precise(against_default) || default_stays;
  return order_is_known && gain_is_known;
}

std::optional<std::size_t> Playoff::winner() const {
  if (racing_.empty() || static_cast<std::size_t>(rounds_) < kFewestForInterval) return std::nullopt;
  const std::size_t fastest = leader();
  for (const std::size_t finalist : racing_) {
    if (interval(finalist).high >= 1 - options_.least_gain) continue;
    if (finalist == fastest || paired(finalist, fastest).median() <= 1 + options_.tie) return finalist;
  }
  return std::nullopt;
}

}  // namespace kiln
