#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace kiln {

/// Where a median lies with 95% confidence.
struct Interval {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  double width() const noexcept { return high - low; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Samples far from the rest. They are reported, and stay among the samples: the median does not mind them, and a
/// reader who is not told cannot know that the machine was busy.
struct Outliers {
  std::size_t samples = 0;  ///< of how many
  std::size_t slow = 0;     ///< more than `kOutlierMads` median absolute deviations above the median
  std::size_t fast = 0;     ///< as many below
  double slowest = 1;       ///< the largest sample over the median
};
inline constexpr double kOutlierMads = 6;

/// "2 of 80 samples (2.5%) lie more than 6 MADs above the median, up to 3.1x (they count like any other)"; empty when
/// there are none.
std::string to_string(const Outliers& outliers);

/// Repeated measurements of one thing, in any unit. Nothing is assumed of their distribution: timings have a long tail
/// and two humps when a clock has two states, so that neither the mean nor the minimum says what to expect of a call.
class SampleSet {
 public:
  SampleSet() = default;
  explicit SampleSet(std::span<const double> samples) { add(samples); }
  /// Finite numbers only; the caller checks.
  void add(double sample);
  void add(std::span<const double> samples);

  std::size_t size() const noexcept { return sorted_.size(); }
  bool empty() const noexcept { return sorted_.empty(); }
  double smallest() const { return sorted_.front(); }
  /// InternalError when empty.
  double median() const;
  /// The 95% confidence interval of the median by order statistics: the k-th smallest and the k-th largest sample, k
  /// the largest number for which a fair coin shows fewer than k heads in size() throws with a probability of at most
  /// 2.5%. Fewer than kFewestForInterval samples tell nothing: [0, infinity).
  Interval median_interval() const;
  Outliers outliers() const;

 private:
  std::vector<double> sorted_;
};
/// The fewest samples for which the smallest and the largest enclose the median with 95% confidence.
inline constexpr std::size_t kFewestForInterval = 6;

}  // namespace kiln
