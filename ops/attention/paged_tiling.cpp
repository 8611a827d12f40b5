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
/// Multiprocessors where nothing is known of the GPU (an H200).
constexpr std::int64_t kUsualProcessors = 132;
/// Rows of all programs that keep a multiprocessor's memory busy: of more there is less of the cache for each.
constexpr std::int64_t kRowsEach = 128, kMostProgramsEach = 8;
/// Keys that are worth a part of their own, which costs a row of floats for each query.
constexpr std::int64_t kLeastPartKeys = 64, kMostSplits = 128;
/// Of the best division's share of time in which programs have work, what the fewest parts must reach (FlashAttention's
/// rule).
constexpr double kGoodShare = 0.85;
/// Of a turn of all programs what is lost at the end, and what share is worth another number of stages.
constexpr double kLostTurns = 0.25, kMuchMore = 1.1;

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

/// So few keys that nothing spills: of f32, whose products take registers, and of wide heads. Few keys and warps in
/// many programs keep more of the memory busy than large blocks do.
std::vector<std::int64_t> gpu_keys(const HeadKind& kind) {
  if (kind.is_float || kind.most_dim > 128) return {16, 32};
  return {16, 32, 64};
}

/// Programs that a multiprocessor is to run at a time: as many as its shared memory has room for, and no more than
/// help.
std::int64_t programs_each(const HeadKind& kind, const Config& config, const Target& target) {
  const std::int64_t numbers =
      (config.at("BLOCK_M") + 2 * config.at("BLOCK_N") * config.at("NUM_STAGES")) * kind.most_dim;
  const std::int64_t shared_numbers = 3 * most_shared_numbers(kind, target);
  return std::clamp<std::int64_t>(std::min(kRowsEach / config.at("BLOCK_M"), shared_numbers / numbers), 1,
                                  kMostProgramsEach);
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

struct Division {
  std::int64_t splits = 1;
  double share = 1;  ///< of the time in which programs have work
};

/// The fewest parts of keys with which programs have work for nearly as much of the time as with any number of parts.
/// Requests differ in length, which the more turns make up for the more there are.
Division best_division(const HeadKind& kind, const PagedCall& call, const Config& config, const Target& target) {
  const PagedProblem& problem = call.problem;
  const std::int64_t programs = problem.batch * problem.keys.heads * ceil_div(problem.rows(), config.at("BLOCK_M"));
  const std::int64_t steps = ceil_div(problem.most_tokens, config.at("BLOCK_N"));
  const std::int64_t most = std::min({ceil_div(problem.most_tokens, kLeastPartKeys), steps, kMostSplits});
  const std::int64_t places =
      is_cuda(target) ? programs_each(kind, config, target) * (call.processors > 0 ? call.processors : kUsualProcessors)
                      : std::max<std::int64_t>(call.processors, 1);
  if (programs == 0 || most <= 1 || (!is_cuda(target) && programs >= places)) return {};
  const auto share = [&](std::int64_t splits) {
    const auto all = static_cast<double>(programs * splits);
    const double turns = all / static_cast<double>(places);
    const double even = all / static_cast<double>(ceil_div(programs * splits, places) * places);
    return even * std::max(turns, 1.0) / (std::max(turns, 1.0) + kLostTurns);
  };
  double best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) best = std::max(best, share(splits));
  Division found;
  while (share(found.splits) < kGoodShare * best) ++found.splits;
  found.share = share(found.splits);
  return found;
}

}  // namespace

ConfigSpace paged_space(const HeadKind& kind, const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_M", {16, 32, 64}}, {"BLOCK_N", {128, 64, 32, 16}}}, {}};
  const common::ConfigExpression rows("BLOCK_M"), keys("BLOCK_N"), stages("NUM_STAGES"), warps("num_warps");
  return {{{"BLOCK_M", {16, 32, 64}}, {"BLOCK_N", gpu_keys(kind)}, {"NUM_STAGES", {3, 2, 4}}, {"num_warps", {2, 4, 1}}},
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
  std::vector<Config> configs = space.enumerate();
  // The fewest rows that hold all, or the most that there may be.
  const auto rows_of = [](const Config& each) { return each.at("BLOCK_M"); };
  const std::int64_t most_rows = rows_of(std::ranges::max(configs, {}, rows_of));
  const std::int64_t wanted = std::clamp(ceil_power_of_two(rows), kLeastBlock, most_rows);
  std::erase_if(configs, [&](const Config& each) { return rows_of(each) != wanted; });
  // Scores that more happens to are shared by more warps, and many rows have fewer stages: else they spill. Warps of
  // wide heads have registers enough.
  const bool is_busy = call.form.scales_first && kind.most_dim <= 128;
  const std::int64_t warps = is_busy ? 4 : std::max<std::int64_t>(2, wanted / kLeastBlock);
  const auto with = [&](std::int64_t stages) {
    return std::ranges::find_if(
        configs, [&](const Config& each) { return each.at("NUM_STAGES") == stages && each.at("num_warps") == warps; });
  };
  const auto few = with(2), usual = wanted == 64 ? few : with(3);
  // Fewer stages leave room for more programs, which then may all have work at a time.
  const auto share = [&](const Config& each) { return best_division(kind, call, each, target).share; };
  return *(share(*few) > kMuchMore * share(*usual) ? few : usual);
}

std::int64_t num_splits(const HeadKind& kind, const PagedCall& call, const Config& config, const Target& target) {
  const std::int64_t steps = std::max<std::int64_t>(ceil_div(call.problem.most_tokens, config.at("BLOCK_N")), 1);
  if (call.problem.num_splits > 0) return std::min(call.problem.num_splits, steps);
  return best_division(kind, call, config, target).splits;
}

}  // namespace kiln::attention
