#include "ops/attention/paged_tiling.hpp"

#include <algorithm>
#include <ranges>

#include "ops/attention/paged_contract.hpp"
#include "ops/attention/split_choice.hpp"
#include "ops/common/block_choice.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

constexpr std::int64_t kLeastBlock = 16;
/// Of a CPU's program: more rows or keys at a time gain nothing.
constexpr std::int64_t kMostCpuRows = 64, kMostCpuKeys = 128;

bool has_much_shared_memory(const Target& target) {
  return target.arch == "sm_90a";
}

/// GPUs before sm_89 convert fp8 by arithmetic.
bool converts_fp8(const Target& target) {
  return target.arch.size() > 5 || target.arch >= "sm_89";
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

/// Programs that a multiprocessor runs at a time: as many as its shared memory has room for.
std::int64_t programs_each(const HeadKind& kind, const Config& config) {
  constexpr std::int64_t kMostEach = 8, kSharedBytes = 200 * 1024;
  const std::int64_t numbers =
      (config.at("BLOCK_M") + 2 * config.at("BLOCK_N") * config.at("NUM_STAGES")) * kind.most_dim;
  return std::clamp<std::int64_t>(kSharedBytes / (numbers * (kind.is_float ? 4 : 2)), 1, kMostEach);
}

SplitDemand demand_of(const HeadKind& kind, const PagedCall& call, const Config& config, const Target& target) {
  const PagedProblem& problem = call.problem;
  return {.programs = problem.batch * problem.keys.heads * ceil_div(problem.rows(), config.at("BLOCK_M")),
          .most_tokens = problem.usual_tokens,
          .block_keys = config.at("BLOCK_N"),
          .token_bytes = static_cast<double>((problem.head_dim + problem.values.width) * itemsize_bytes(call.keys)),
          .requested = problem.num_splits,
          .processors = call.processors,
          .programs_each = is_cuda(target) ? programs_each(kind, config) : 1};
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
    config.set("BLOCK_N", cpu_page_keys(call.problem.keys.page, call.problem.usual_tokens, kMostCpuKeys));
    return config;
  }
  std::vector<Config> configs = space.enumerate();
  // The fewest rows that hold all, or the most that there may be.
  const auto rows_of = [](const Config& each) { return each.at("BLOCK_M"); };
  const std::int64_t most_rows = rows_of(std::ranges::max(configs, {}, rows_of));
  const std::int64_t wanted = std::clamp(ceil_power_of_two(rows), kLeastBlock, most_rows);
  // Scores that more happens to are shared by more warps, and many rows have fewer stages: else they spill. Warps of
  // wide heads have registers enough. Keys of 8 bits are cast by way of shared memory, where a warp alone waits for no
  // other: 64 requests of 4096 tokens took 239 us with one and two stages, 330 with two and three (H100). Two share
  // what a GPU converts by arithmetic, for which one alone has too few registers.
  const bool is_busy = call.form.scales_first && kind.most_dim <= 128 && !kind.has_bytes;
  const std::int64_t least_warps = kind.has_bytes && converts_fp8(target) ? 1 : 2;
  const std::int64_t warps = is_busy ? 4 : std::max(least_warps, wanted / kLeastBlock);
  const std::int64_t most_stages = wanted == 64 || kind.has_bytes ? 2 : 3;
  const std::int64_t keys = wanted == 64 && !has_much_shared_memory(target) ? 2 * kLeastBlock : kLeastBlock;
  std::erase_if(configs, [&](const Config& each) {
    return rows_of(each) != wanted || each.at("BLOCK_N") != keys || each.at("num_warps") != warps ||
           each.at("NUM_STAGES") > most_stages;
  });
  // Fewer stages leave room for more programs.
  return std::ranges::min(configs, {}, [&](const Config& each) {
    const SplitDemand demand = demand_of(kind, call, each, target);
    return split_us(demand, num_splits(demand, target));
  });
}

std::int64_t paged_splits(const HeadKind& kind, const PagedCall& call, const Config& config, const Target& target) {
  return num_splits(demand_of(kind, call, config, target), target);
}

}  // namespace kiln::attention
