#include "autotune/turns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "core/errors.hpp"

namespace kiln {
namespace {

void take_turn(const Contender& contender, ContenderTimes& times, SampleSet& samples, int wanted) {
  const int left = wanted - static_cast<int>(times.samples_us.size());
  const int count = wanted > 0 ? std::min(contender.samples_per_turn, left) : contender.samples_per_turn;
  if (count <= 0) return;
  const std::vector<double> taken_us = contender.samples_us(count);
  samples.add(taken_us);
  times.turns_us.push_back(SampleSet(taken_us).median());
  times.samples_us.insert(times.samples_us.end(), taken_us.begin(), taken_us.end());
}

}  // namespace

std::vector<ContenderTimes> take_turns(std::span<const Contender> contenders, const TurnOptions& options) {
  if (options.samples < 0)
    throw_value_error(fmt::format("samples={}; expected a number of samples above 0", options.samples));
  if (!(options.budget_s > 0))
    throw_value_error(fmt::format("budget_s={}; expected a number of seconds above 0", options.budget_s));
  const auto start = std::chrono::steady_clock::now();
  const auto is_over_budget = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= options.budget_s;
  };
  std::vector<ContenderTimes> times(contenders.size());
  std::vector<SampleSet> samples(contenders.size());
  const auto is_complete = [&] {
    return std::all_of(times.begin(), times.end(),
                       [&](const auto& of_one) { return of_one.samples_us.size() >= std::size_t(options.samples); });
  };
  const auto is_precise = [&] {
    return std::all_of(samples.begin(), samples.end(), [&](const SampleSet& of_one) {
      return of_one.median_interval().width() <= options.precision.width_at(of_one.median(), 1);
    });
  };
  for (const Contender& contender : contenders) contender.samples_us(1);
  do {
    if (options.between_turns) options.between_turns();
    for (std::size_t i = 0; i < contenders.size(); ++i) take_turn(contenders[i], times[i], samples[i], options.samples);
    if (options.should_end && options.should_end()) break;
  } while (options.samples > 0 ? !is_complete() : !is_over_budget() && !is_precise());
  return times;
}

SampleSet speedups(const ContenderTimes& first, const ContenderTimes& second) {
  SampleSet ratios;
  for (std::size_t turn = 0; turn < std::min(first.turns_us.size(), second.turns_us.size()); ++turn)
    ratios.add(second.turns_us[turn] / first.turns_us[turn]);
  return ratios;
}

}  // namespace kiln
