#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kiln {

/// A guess at costs that have not been measured: the sum of an effect of each tunable's value and of each pair of
/// values, fitted to logarithms of costs, so that effects multiply. Effects that few measurements support are held
/// close to zero. It knows no order among values: 96 may be bad between 64 and 128.
class AdditiveModel {
 public:
  /// `values[i]` is how many values tunable i has; genes are places among them.
  explicit AdditiveModel(std::vector<int> values);
  /// Replaces what it knew. `genes[i]` cost exp(log_costs[i]).
  void fit(std::span<const std::vector<int>* const> genes, std::span<const double> log_costs);
  /// The logarithm of the cost.
  double predict(const std::vector<int>& genes) const;

 private:
  /// The effects of one tunable, or of a pair of them.
  struct Effect {
    std::size_t first, second;  ///< the same for a single tunable
    std::vector<double> of_value;
  };
  std::size_t place_in(const Effect& effect, const std::vector<int>& genes) const;

  std::vector<int> values_;
  std::vector<Effect> effects_;  ///< single tunables first
  double mean_ = 0;
};

}  // namespace kiln
