#pragma once

#include <cstddef>
#include <vector>

namespace kiln {

/// How long something took, time and again. Percentiles lie between neighbouring samples in proportion. All 0 when
/// `count` is.
struct TimeDistribution {
  std::size_t count = 0;
  double total_us = 0, mean_us = 0, min_us = 0, max_us = 0, p50_us = 0, p99_us = 0;
};
TimeDistribution distribution_of(std::vector<double> samples_us);

}  // namespace kiln
