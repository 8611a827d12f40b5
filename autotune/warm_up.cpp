#include "autotune/warm_up.hpp"

#include <algorithm>

#include "autotune/sample_set.hpp"

namespace kiln {

double Precision::width_at(double median, double unit_us) const noexcept {
  return std::max(share * median, time_us / unit_us);
}

bool WarmUp::add(std::span<const double> window_us) {
  const double median_us = SampleSet(window_us).median();
  ++windows_;
  if (windows_ > 1 && median_us >= last_median_us_ - precision_.width_at(last_median_us_, 1)) stable_ = true;
  if (windows_ >= kMostWindows) stable_ = true;
  last_median_us_ = median_us;
  return stable_;
}

}  // namespace kiln
