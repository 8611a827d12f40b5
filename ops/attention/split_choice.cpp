#include "ops/attention/split_choice.hpp"

#include <algorithm>
#include <cmath>

#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

/// Keys that are worth a part of their own, which costs a row of floats for each query.
constexpr std::int64_t kLeastPartKeys = 64, kMostSplits = 128;
constexpr double kBytesEach = 31e3;  ///< that a multiprocessor reads in a microsecond where all do
constexpr double kProgramUs = 7, kMergeUs = 4;
/// Of the time that a token takes where all programs have work, what it takes at least.
constexpr double kAlone = 0.65;
constexpr double kAlike = 0.75;  ///< how much requests that are alike count

/// Of a CPU's threads, without work while the last parts are done.
double idle_share(const SplitDemand& demand, std::int64_t splits) {
  const std::int64_t threads = std::max<std::int64_t>(demand.processors, 1), all = demand.programs * splits;
  return static_cast<double>(ceil_div(all, threads) * threads - all) / static_cast<double>(all);
}

}  // namespace

double split_us(const SplitDemand& demand, std::int64_t splits) {
  const std::int64_t places = demand.programs_each * known_processors(demand.processors);
  const std::int64_t programs = demand.programs * splits;
  const double tokens_us = static_cast<double>(ceil_div(demand.most_tokens, splits)) * demand.token_bytes *
                           static_cast<double>(demand.programs_each) / kBytesEach;
  const auto turns = static_cast<double>(programs) / static_cast<double>(places);
  const double whole = std::floor(turns), rest = turns - whole;
  const double alike_us =
      whole * (kProgramUs + tokens_us) + (rest > 0 ? kProgramUs + tokens_us * std::max(rest, kAlone) : 0);
  // Half as long in the mean, and half of the longest at the end.
  const double unlike_us = std::max(turns, 1.0) * kProgramUs + turns * tokens_us / 2 + kAlone * tokens_us / 2;
  return kAlike * alike_us + (1 - kAlike) * unlike_us + (splits > 1 ? kMergeUs : 0);
}

std::int64_t num_splits(const SplitDemand& demand, const Target& target) {
  const std::int64_t steps = std::max<std::int64_t>(ceil_div(demand.most_tokens, demand.block_keys), 1);
  if (demand.requested > 0) return std::min(demand.requested, steps);
  if (demand.programs == 0 || (!is_cuda(target) && demand.programs >= demand.processors)) return 1;
  const std::int64_t most = std::min({ceil_div(demand.most_tokens, kLeastPartKeys), steps, kMostSplits});
  const auto cost = [&](std::int64_t splits) {
    return is_cuda(target) ? split_us(demand, splits) : idle_share(demand, splits);
  };
  std::int64_t best = 1;
  for (std::int64_t splits = 2; splits <= most; ++splits)
    if (cost(splits) < cost(best)) best = splits;
  return best;
}

}  // namespace kiln::attention
