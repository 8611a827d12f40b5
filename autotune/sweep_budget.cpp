#include "autotune/sweep_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/errors.hpp"

namespace kiln {
namespace {

/// Work grows with the size to a power between these: rows of data, and products of square matrices.
constexpr double kLeastPower = 1;
constexpr double kMostPower = 3;
/// How often a call is made at least: once to see how long it takes, once to warm up, and a turn of samples.
constexpr double kFewestCalls = 8;
constexpr double kLeastUsualS = 60;
/// Inputs are made and kernels compiled beside what is measured.
constexpr double kTimesMeasuring = 2;

}  // namespace

double usual_sweep_budget_s(double budget_s_of_a_size, std::size_t sizes) {
  return std::max(kLeastUsualS, kTimesMeasuring * budget_s_of_a_size * static_cast<double>(sizes));
}

SweepBudget::SweepBudget(double total_s, std::function<double()> now_s)
    : total_s_(total_s),
      now_s_(
          now_s
              ? std::move(now_s)
              : [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }),
      start_s_(now_s_()) {
  if (!(total_s > 0))
    throw_value_error(fmt::format("total_s={}; expected a number of seconds above 0 for all sizes together", total_s));
}

std::string SweepBudget::begin(double size) {
  begin_s_ = now_s_();
  size_ = size;
  if (measured_.empty()) return {};
  const double left_s = total_s_ - (begin_s_ - start_s_), expected = expected_s(size);
  if (expected <= left_s) return {};
  return fmt::format("it would take about {:.2g} s, and {:.2g} of {:.4g} s are left for the sweep", expected,
                     std::max(0.0, left_s), total_s_);
}

void SweepBudget::end(double call_us) {
  measured_.push_back({size_, now_s_() - begin_s_, call_us * 1e-6});
}

double SweepBudget::expected_s(double size) const {
  const Measured& last = measured_.back();
  const double growth = size / last.size;
  if (!(growth > 1)) return last.took_s;
  double power = kLeastPower, added_s = 0;
  if (measured_.size() > 1) {
    const Measured& before = measured_[measured_.size() - 2];
    if (last.size > before.size) {
      power = std::log(last.call_s / before.call_s) / std::log(last.size / before.size);
      added_s = std::max(0.0, last.took_s - before.took_s) * (size - last.size) / (last.size - before.size);
    }
  }
  // Of short calls as many are made as there is time for, which is the same at each size; of long ones as few as may
  // be.
  const double calls_s = kFewestCalls * last.call_s * std::pow(growth, std::clamp(power, kLeastPower, kMostPower));
  return std::max(last.took_s + added_s, calls_s);
}

}  // namespace kiln
