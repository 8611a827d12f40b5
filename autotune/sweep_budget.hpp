#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kiln {

/// Seconds for all of so many sizes together where nobody says: a minute, or what their own budgets come to, and as
/// much again for what is done beside measuring.
double usual_sweep_budget_s(double budget_s_of_a_size, std::size_t sizes);

/// Ends a sweep over growing sizes before one that would take longer than there is time left: what a size takes is told
/// from what those before it took. The first size is always measured.
class SweepBudget {
 public:
  /// `now_s`: seconds from any moment; empty: the steady clock. UsageError(value) unless `total_s` is above 0.
  explicit SweepBudget(double total_s, std::function<double()> now_s = {});

  /// Call it before a size is measured. Why not to; empty: go on. Sizes are any positive numbers that grow with the
  /// work.
  std::string begin(double size);
  /// Call it when that size was measured, at which one call takes `call_us`.
  void end(double call_us);

 private:
  struct Measured {
    double size;
    double took_s;  ///< with making its inputs, compiling, and all samples
    double call_s;
  };
  double expected_s(double size) const;

  double total_s_;
  std::function<double()> now_s_;
  double start_s_;
  double size_ = 0;
  double begin_s_ = 0;
  std::vector<Measured> measured_;
};

}  // namespace kiln
