#include "autotune/sample_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/errors.hpp"

namespace kiln {
namespace {

constexpr double kTailProbability = 0.025;
// Beyond this many samples the normal approximation gives the same rank, and 0.5^n still fits a double.
constexpr std::size_t kMostForExactRank = 1000;

std::size_t exact_rank(std::size_t size) {
  const auto n = static_cast<double>(size);
  double heads = std::exp2(-n);  // the probability of exactly k of them
  double at_most = heads;
  std::size_t k = 0;
  while (at_most <= kTailProbability) {
    ++k;
    heads *= (n - static_cast<double>(k) + 1) / static_cast<double>(k);
    at_most += heads;
  }
  return k;
}

/// The rank k of SampleSet::median_interval; 0 when there are too few samples.
std::size_t interval_rank(std::size_t size) {
  static const auto kExact = [] {
    std::array<std::size_t, kMostForExactRank + 1> ranks{};
    for (std::size_t n = 0; n <= kMostForExactRank; ++n) ranks[n] = exact_rank(n);
    return ranks;
  }();
  if (size <= kMostForExactRank) return kExact[size];
  const auto n = static_cast<double>(size);
  return static_cast<std::size_t>(std::floor(n / 2 - 0.98 * std::sqrt(n)));
}

double median_of_sorted(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace

void SampleSet::add(double sample) {
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), sample), sample);
}

void SampleSet::add(std::span<const double> samples) {
  for (const double sample : samples) add(sample);
}

double SampleSet::median() const {
  if (empty()) throw InternalError("the median of no samples");
  return median_of_sorted(sorted_);
}

Interval SampleSet::median_interval() const {
  const std::size_t rank = interval_rank(size());
  if (rank == 0) return {};
  return {sorted_[rank - 1], sorted_[size() - rank]};
}

Outliers SampleSet::outliers() const {
  Outliers outliers{.samples = size()};
  if (empty()) return outliers;
  const double center = median();
  std::vector<double> deviations;
  deviations.reserve(size());
  for (const double sample : sorted_) deviations.push_back(std::abs(sample - center));
  std::sort(deviations.begin(), deviations.end());
  const double limit = kOutlierMads * median_of_sorted(deviations);
  for (const double sample : sorted_) {
    if (sample > center + limit) ++outliers.slow;
    if (sample < center - limit) ++outliers.fast;
  }
  if (center > 0) outliers.slowest = sorted_.back() / center;
  return outliers;
}

std::string to_string(const Outliers& outliers) {
  if (outliers.slow + outliers.fast == 0) return {};
  const auto share = [&](std::size_t count) {
    return fmt::format("{} of {} samples ({:.1f}%) lie more than {} MADs", count, outliers.samples,
                       100 * static_cast<double>(count) / static_cast<double>(outliers.samples), kOutlierMads);
  };
  std::string text;
  if (outliers.slow > 0)
    text = fmt::format("{} above the median, up to {:.1f}x", share(outliers.slow), outliers.slowest);
  if (outliers.fast > 0) text += fmt::format("{}{} below the median", text.empty() ? "" : "; ", share(outliers.fast));
  return text + " (they count like any other)";
}

}  // namespace kiln
