#include "ops/attention/mla_tiling.hpp"

#include <algorithm>

#include "ops/attention/paged_contract.hpp"
#include "ops/attention/split_choice.hpp"
#include "ops/common/block_choice.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

constexpr std::int64_t kLeastMlaBlock = 16;
/// Of a CPU's program: more rows or keys at a time gain nothing.
constexpr std::int64_t kMostMlaCpuRows = 64, kMostMlaCpuKeys = 64;
constexpr std::int64_t kMostMlaProgramsEach = 4;
/// Numbers of a token's tile.
constexpr std::int64_t kMostMlaNumbers = kMostLatent + kMostRotary;

bool multiplies_by_warpgroups(const Target& target) {
  return target.arch == "sm_90a";
}
/// 227 KiB of shared memory for a program, and not 99 KiB.
bool has_much_room(const Target& target) {
  return multiplies_by_warpgroups(target) || target.arch.starts_with("sm_10");
}

/// Shared memory for queries and for keys, in numbers, beside what rows' probabilities and sums need on their way.
std::int64_t most_mla_numbers(bool is_float, const Target& target) {
  return (has_much_room(target) ? 216 : 92) * 1024 / (is_float ? 4 : 2);
}

/// Programs that a multiprocessor is to run at a time: as many as its shared memory has room for.
std::int64_t mla_programs_each(bool is_float, const Config& config, const Target& target) {
  if (!is_cuda(target)) return 1;
  const std::int64_t rows = config.at("BLOCK_M"), numbers = rows + config.at("BLOCK_N") * config.at("NUM_STAGES");
  const std::int64_t most = most_mla_numbers(is_float, target) / (kMostMlaNumbers * numbers);
  return std::clamp<std::int64_t>(most, 1, kMostMlaProgramsEach);
}

}  // namespace

ConfigSpace mla_space(bool is_float, const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_M", {16, 32, 64}}, {"BLOCK_N", {64, 32, 16}}}, {}};
  const common::ConfigExpression rows("BLOCK_M"), keys("BLOCK_N"), stages("NUM_STAGES"), warps("num_warps");
  const auto fits = kMostMlaNumbers * (rows + keys * stages) <= most_mla_numbers(is_float, target);
  if (is_float)
    return {
        {{"BLOCK_M", {16}}, {"BLOCK_N", {16}}, {"NUM_STAGES", {has_much_room(target) ? 2 : 1}}, {"num_warps", {8, 4}}},
        {fits}};
  if (!multiplies_by_warpgroups(target))
    return {{{"BLOCK_M", {16, 32}}, {"BLOCK_N", {32, 16}}, {"NUM_STAGES", {2, 1}}, {"num_warps", {8, 4}}}, {fits}};
  // Sums of 64 rows are two warpgroups', by columns; of fewer rows they are mma's, of which a warp has columns too.
  return {{{"BLOCK_M", {16, 32, 64}}, {"BLOCK_N", {32, 64}}, {"NUM_STAGES", {2, 3, 4}}, {"num_warps", {4, 8}}},
          {fits, rows <= 8 * warps, rows <= keys}};
}

Config default_mla_tiling(const MlaCall& call, const Target& target) {
  const bool is_float = call.dtype == DType::f32;
  Config config = common::first_config(mla_space(is_float, target));
  const std::int64_t rows = call.problem.rows();
  if (!is_cuda(target)) {
    config.set("BLOCK_M", std::max(kLeastMlaBlock, common::block_over(rows, {kLeastMlaBlock, kMostMlaCpuRows})));
    config.set("BLOCK_N", cpu_page_keys(call.problem.page, call.problem.most_tokens, kMostMlaCpuKeys));
    return config;
  }
  if (is_float) return config;
  // The fewest rows that hold all, or the most that there may be. Of 16 two programs share a multiprocessor, whose
  // memory more and smaller blocks keep busy.
  const bool by_warpgroups = multiplies_by_warpgroups(target);
  const std::int64_t wanted =
      std::clamp<std::int64_t>(ceil_power_of_two(rows), kLeastMlaBlock, by_warpgroups ? 64 : 32);
  config.set("BLOCK_M", wanted);
  if (wanted == 64) config.set("BLOCK_N", 64);
  if (!by_warpgroups && wanted > kLeastMlaBlock) config.set("BLOCK_N", 16);
  config.set("num_warps", by_warpgroups && wanted == kLeastMlaBlock ? 4 : 8);
  return config;
}

std::int64_t mla_splits(const MlaCall& call, const Config& config, const Target& target) {
  const MlaProblem& problem = call.problem;
  return num_splits({.programs = problem.batch * ceil_div(problem.rows(), config.at("BLOCK_M")),
                     .most_tokens = problem.most_tokens,
                     .block_keys = config.at("BLOCK_N"),
                     .token_bytes = static_cast<double>(kMostMlaNumbers * itemsize_bytes(call.dtype)),
                     .requested = problem.num_splits,
                     .processors = call.processors,
                     .programs_each = mla_programs_each(call.dtype == DType::f32, config, target)},
                    target);
}

}  // namespace kiln::attention
