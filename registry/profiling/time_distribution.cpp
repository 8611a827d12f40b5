#include "registry/profiling/time_distribution.hpp"

#include <algorithm>
#include <cmath>

namespace kiln {
namespace {

double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

TimeDistribution distribution_of(std::vector<double> samples_us) {
  TimeDistribution times;
  if (samples_us.empty()) return times;
  std::sort(samples_us.begin(), samples_us.end());
  times.count = samples_us.size();
  for (const double sample_us : samples_us) times.total_us += sample_us;
  times.mean_us = times.total_us / static_cast<double>(times.count);
  times.min_us = samples_us.front();
  times.max_us = samples_us.back();
  times.p50_us = percentile(samples_us, 0.5);
  times.p99_us = percentile(samples_us, 0.99);
  return times;
}

}  // namespace kiln
