#include "autotune/additive_model.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kiln {
namespace {

/// So many measurements of mean zero are imagined beside the real ones of each effect.
constexpr double kShrinkage = 1;
constexpr int kSweeps = 12;

}  // namespace

AdditiveModel::AdditiveModel(std::vector<int> values) : values_(std::move(values)) {
  for (std::size_t first = 0; first < values_.size(); ++first) effects_.push_back({first, first, {}});
  for (std::size_t first = 0; first < values_.size(); ++first)
    for (std::size_t second = first + 1; second < values_.size(); ++second) effects_.push_back({first, second, {}});
  for (Effect& effect : effects_) {
    const int places = values_[effect.first] * (effect.first == effect.second ? 1 : values_[effect.second]);
    effect.of_value.assign(static_cast<std::size_t>(places), 0);
  }
}

std::size_t AdditiveModel::place_in(const Effect& effect, const std::vector<int>& genes) const {
  const int first = genes[effect.first];
  return static_cast<std::size_t>(
      effect.first == effect.second ? first : first * values_[effect.second] + genes[effect.second]);
}

void AdditiveModel::fit(std::span<const std::vector<int>* const> genes, std::span<const double> log_costs) {
  const auto count = static_cast<double>(log_costs.size());
  mean_ = std::accumulate(log_costs.begin(), log_costs.end(), 0.0) / std::max(count, 1.0);
  for (Effect& effect : effects_) std::fill(effect.of_value.begin(), effect.of_value.end(), 0);
  std::vector<double> unexplained;
  for (const double log_cost : log_costs) unexplained.push_back(log_cost - mean_);
  // Ridge regression by blocks of coordinates: each effect in turn is set to what the others leave unexplained.
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (Effect& effect : effects_) {
      std::vector<double> sums(effect.of_value.size()), counts(effect.of_value.size(), kShrinkage);
      for (std::size_t i = 0; i < unexplained.size(); ++i) {
        const std::size_t place = place_in(effect, *genes[i]);
        sums[place] += unexplained[i] + effect.of_value[place];
        ++counts[place];
      }
      for (std::size_t i = 0; i < unexplained.size(); ++i) {
        const std::size_t place = place_in(effect, *genes[i]);
        unexplained[i] += effect.of_value[place] - sums[place] / counts[place];
      }
      for (std::size_t place = 0; place < sums.size(); ++place) effect.of_value[place] = sums[place] / counts[place];
    }
}

double AdditiveModel::predict(const std::vector<int>& genes) const {
  double log_cost = mean_;
  for (const Effect& effect : effects_) log_cost += effect.of_value[place_in(effect, genes)];
  return log_cost;
}

}  // namespace kiln
