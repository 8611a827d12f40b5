#include "ops/attention/paged_tiling.hpp"

#include <algorithm>
#include <ranges>

#include "ops/common/block_choice.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

constexpr std::int64_t kLeastBlock = 16;
/// Of a CPU's program: more rows or keys at a time gain nothing.
constexpr std::int64_t kMostCpuRows = 64, kMostCpuKeys = 128;
/// Programs that a multiprocessor has room for, and how many there are where nothing is known of the GPU (an H200).
constexpr std::int64_t kProgramsEach = 2, kUsualProcessors = 132;
/// Keys that are worth a part of their own, which costs a row of floats for each query.
constexpr std::int64_t kLeastPartKeys = 256, kMostSplits = 128;
/// Of the best division's share of time in which programs have work, what the fewest parts must reach (FlashAttention's
/// rule).
constexpr double kGoodShare = 0.85;

bool has_much_shared_memory(const Target& target) {
  return target.arch == "sm_90a";
}

/// Keys and values in shared memory: 128 KiB of 227, or 64 KiB of 99 elsewhere.
std::int64_t most_shared_numbers(const HeadKind& kind, const Target& target) {
  return (has_much_shared_memory(target) ? 32768 : 16384) / (kind.is_float ? 2 : 1);
}

/// Queries have a third of the 48 KiB beside those, so that rows on their way to memory have another.
std::int64_t most_query_numbers(const HeadKind& kind) {
  return kind.is_float ? 4096 : 8192;
}

/// So few keys that nothing spills: of f32, whose products take registers, and of wide heads.
std::vector<std::int64_t> gpu_keys(const HeadKind& kind) {
  if (kind.is_float) return {16, 32};
  return kind.most_dim > 128 ? std::vector<std::int64_t>{32, 16} : std::vector<std::int64_t>{64, 32, 16};
}

std::int64_t cpu_keys(const PagedCall& call, const Config& first) {
  // A block that is part of a page is read where it lies.
  const std::int64_t page = call.problem.keys.page, most = std::min(call.problem.most_tokens, kMostCpuKeys);
  std::int64_t keys = kLeastBlock;
  if (page % keys == 0) {
    while (page % (2 * keys) == 0 && 2 * keys <= most) keys *= 2;
    return keys;
  }
  return std::max(kLeastBlock, common::block_over(call.problem.most_tokens, {kLeastBlock, first.at("BLOCK_N")}));
}

}  // namespace

ConfigSpace paged_space(const HeadKind& kind, const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_M", {16, 32, 64}}, {"BLOCK_N", {128, 64, 32, 16}}}, {}};
  const common::ConfigExpression rows("BLOCK_M"), keys("BLOCK_N"), stages("NUM_STAGES"), warps("num_warps");
  return {{{"BLOCK_M", {16, 32, 64}}, {"BLOCK_N", gpu_keys(kind)}, {"NUM_STAGES", {3, 2}}, {"num_warps", {4, 2}}},
          {rows <= 16 * warps, rows * kind.most_dim <= most_query_numbers(kind),
           keys * stages * kind.most_dim <= most_shared_numbers(kind, target)}};
}

Config default_paged_tiling(const HeadKind& kind, const PagedCall& call, const Target& target) {
  const ConfigSpace space = paged_space(kind, target);
  Config config = common::first_config(space);
  const std::int64_t rows = call.problem.rows();
  if (!is_cuda(target)) {
    config.set("BLOCK_M", std::max(kLeastBlock, common::block_over(rows, {kLeastBlock, kMostCpuRows})));
    config.set("BLOCK_N", cpu_keys(call, config));
    return config;
  }
  const std::vector<Config> configs = space.enumerate();
  // The fewest rows that hold all, or the most that there may be; then the first config that fits, with the fewest keys
  // where many sums of wide heads leave few registers.
  const auto rows_of = [](const Config& each) { return each.at("BLOCK_M"); };
  const std::int64_t most_rows = rows_of(std::ranges::max(configs, {}, rows_of));
  const std::int64_t wanted = std::clamp(ceil_power_of_two(rows), kLeastBlock, most_rows);
  const bool is_large = kind.most_dim > 128 && wanted > kLeastBlock;
  return *std::ranges::find_if(configs, [&](const Config& each) {
    return rows_of(each) == wanted && (!is_large || each.at("BLOCK_N") == kLeastBlock);
  });
}

std::int64_t num_splits(const PagedCall& call, const Config& config, const Target& target) {
  const PagedProblem& problem = call.problem;
  const std::int64_t most_steps = std::max<std::int64_t>(ceil_div(problem.most_tokens, config.at("BLOCK_N")), 1);
  if (problem.num_splits > 0) return std::min(problem.num_splits, most_steps);
  const std::int64_t programs = problem.batch * problem.keys.heads * ceil_div(problem.rows(), config.at("BLOCK_M"));
  const std::int64_t most = std::min({ceil_div(problem.most_tokens, kLeastPartKeys), most_steps, kMostSplits});
  const std::int64_t places = is_cuda(target)
                                  ? kProgramsEach * (call.processors > 0 ? call.processors : kUsualProcessors)
                                  : std::max<std::int64_t>(call.processors, 1);
  if (programs == 0 || most <= 1 || programs >= places) return 1;
  const auto share = [&](std::int64_t splits) {
    return static_cast<double>(programs * splits) / static_cast<double>(ceil_div(programs * splits, places) * places);
  };
  double best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) best = std::max(best, share(splits));
  std::int64_t splits = 1;
  while (share(splits) < kGoodShare * best) ++splits;
  return splits;
}

}  // namespace kiln::attention
