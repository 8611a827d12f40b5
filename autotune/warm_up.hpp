#pragma once

#include <span>

namespace kiln {

/// How exactly a time must be known: to a share of it, or to an absolute time for what is too short for that.
struct Precision {
  double share = 0.01;
  double time_us = 0.5;
  /// The width an interval around `median` may have, in units of which one lasts `unit_us`.
  double width_at(double median, double unit_us) const noexcept;
};

/// Tells when times have stopped to fall: caches fill, clocks rise, and pages are mapped during the first calls, which
/// would count against whoever is measured first. Samples come in windows; the times are stable once a window's median
/// is no longer below the last one's by more than the precision. A fixed number of warm-up calls would be too many for
/// kernels of a second and too few for a clock that takes 100 ms to rise.
class WarmUp {
 public:
  static constexpr int kWindow = 3;
  /// Times that keep falling are taken as they are after this many windows.
  static constexpr int kMostWindows = 20;

  explicit WarmUp(Precision precision) : precision_(precision) {}
  /// Returns stable(). The window that makes it true is the first to count as a measurement.
  bool add(std::span<const double> window_us);
  bool stable() const noexcept { return stable_; }

 private:
  Precision precision_;
  double last_median_us_ = 0;
  int windows_ = 0;
  bool stable_ = false;
};

}  // namespace kiln
