#include "ops/attention/paged_times.hpp"

#include <algorithm>

#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

constexpr std::int64_t kUsualProcessors = 132, kMostProgramsEach = 8, kSharedBytes = 200 * 1024;
constexpr double kBytesEach = 31e3;  ///< that a multiprocessor reads in a microsecond where all do
constexpr double kProgramUs = 7, kMergeUs = 4;
/// Of the time that a key takes where all programs have work, what it takes at least.
constexpr double kAlone = 0.65;
constexpr double kAlike = 0.75;  ///< how much requests that are alike count

/// Programs that a multiprocessor runs at a time: as many as its shared memory has room for.
std::int64_t programs_each(const HeadKind& kind, const Config& config) {
  const std::int64_t numbers =
      (config.at("BLOCK_M") + 2 * config.at("BLOCK_N") * config.at("NUM_STAGES")) * kind.most_dim;
  return std::clamp<std::int64_t>(kSharedBytes / (numbers * (kind.is_float ? 4 : 2)), 1, kMostProgramsEach);
}

}  // namespace

double paged_us(const HeadKind& kind, const PagedCall& call, const Config& config, std::int64_t splits) {
  const PagedProblem& problem = call.problem;
  const std::int64_t each = programs_each(kind, config);
  const std::int64_t places = each * (call.processors > 0 ? call.processors : kUsualProcessors);
  const std::int64_t programs =
      problem.batch * problem.keys.heads * ceil_div(problem.rows(), config.at("BLOCK_M")) * splits;
  const double key_bytes = static_cast<double>((problem.head_dim + problem.values.width) * (kind.is_float ? 4 : 2));
  const double keys_us =
      static_cast<double>(ceil_div(problem.most_tokens, splits)) * key_bytes * static_cast<double>(each) / kBytesEach;
  const auto turns = static_cast<double>(programs) / static_cast<double>(places);
  const auto whole = static_cast<double>(programs / places);
  const double rest = turns - whole;
  const double alike_us =
      whole * (kProgramUs + keys_us) + (rest > 0 ? kProgramUs + keys_us * std::max(rest, kAlone) : 0);
  // Half as long in the mean, and half of the longest at the end.
  const double unlike_us = std::max(turns, 1.0) * kProgramUs + turns * keys_us / 2 + kAlone * keys_us / 2;
  return kAlike * alike_us + (1 - kAlike) * unlike_us + (splits > 1 ? kMergeUs : 0);
}

}  // namespace kiln::attention
