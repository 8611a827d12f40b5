#include "ops/attention/tiling.hpp"

#include <algorithm>
#include <string_view>

#include "ops/common/block_choice.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

constexpr std::int64_t kLeastCpuBlock = 16;

/// Queries, keys and stages of a program on a GPU, for 227 KiB of shared memory on sm_90a and for 99 KiB elsewhere,
/// how many programs a multiprocessor is to run at a time, and whether warps beside a program's copy for it.
std::vector<Tunable> gpu_tunables(const HeadKind& kind, const Target& target) {
  const auto tunables = [](std::vector<std::int64_t> m, std::vector<std::int64_t> n, std::vector<std::int64_t> stages,
                           std::vector<std::int64_t> warps, std::vector<std::int64_t> programs = {1},
                           std::vector<std::int64_t> copy_warps = {0}) -> std::vector<Tunable> {
    return {{"BLOCK_M", std::move(m)},       {"BLOCK_N", std::move(n)},         {"NUM_STAGES", std::move(stages)},
            {"num_warps", std::move(warps)}, {"PROGRAMS", std::move(programs)}, {"copy_warps", std::move(copy_warps)}};
  };
  if (kind.is_float) {
    if (kind.most_dim == 256) return tunables({16}, {16}, {has_wgmma(target) ? 2 : 1}, {2});
    const bool is_large = has_wgmma(target);
    if (kind.most_dim == 64)
      return is_large ? tunables({64, 32}, {64, 32}, {2}, {4, 2}) : tunables({32}, {64, 32}, {2}, {2});
    return is_large ? tunables({64, 32}, {32, 16}, {2}, {4, 2}) : tunables({32}, {16}, {2}, {2});
  }
  if (has_wgmma(target)) {
    if (kind.has_bytes) return tunables({128, 64}, {64, 32}, {2, 3}, {8, 4});
    if (kind.most_dim == 256) return tunables({128, 64}, {64, 32}, {2, 3}, {8, 4}, {1}, {0, 4});
    if (kind.most_dim == 128) return tunables({128, 64}, {128, 64}, {2, 3}, {8, 4}, {1, 2, 3, 4}, {0, 4});
    return tunables({128, 64}, {128, 64}, {2, 3}, {8, 4}, {1, 2, 3, 4});
  }
  if (kind.most_dim == 64) return tunables({128, 64, 16}, {64, 32}, {2, 3}, {8, 4, 1});
  if (kind.most_dim == 128) return tunables({64, 16}, {64, 32}, {2}, {4, 1});
  return tunables({64, 16}, {16}, {2}, {4, 1});
}

/// Rows of a warp: all of a product's columns, so that probabilities stay in registers from one product to the next;
/// half as many of f32 where sums of 256 numbers would spill.
std::int64_t rows_of_warp(const HeadKind& kind) {
  return kind.is_float && kind.most_dim == 256 ? 8 : 16;
}

}  // namespace

bool has_wgmma(const Target& target) {
  return target.arch == "sm_90a";
}

ConfigSpace attention_space(const HeadKind& kind, const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_M", {64, 128, 32, 16}}, {"BLOCK_N", {128, 64, 32, 16}}}, {}};
  const common::ConfigExpression rows("BLOCK_M"), keys("BLOCK_N"), stages("NUM_STAGES"), warps("num_warps");
  const common::ConfigExpression programs("PROGRAMS"), copy_warps("copy_warps");
  // Keys and values of 16 bits take 128 KiB at most, and a thread has 128 registers or more.
  std::vector<Constraint> constraints = {rows == rows_of_warp(kind) * warps, keys * stages <= 32768 / kind.most_dim,
                                         warps * programs <= 16, 2 * copy_warps <= warps, copy_warps * programs <= 4};
  // What keys and values of 8 bits are cast to has 48 KiB, beside weights.
  if (kind.has_bytes) constraints.push_back(rows * keys <= 4096);
  return {gpu_tunables(kind, target), std::move(constraints)};
}

Config default_tiling(const HeadKind& kind, const ops::AttentionForm& form, const BlockWork& work,
                      const Target& target) {
  // Scores that more happens to need registers, and so do keys that are cast: with as many as the others have, they
  // spill.
  const bool is_busy = form.scales_first || form.has_mask || kind.has_bytes;
  if (has_wgmma(target) && !kind.is_float && !is_busy) return quickest_config(kind, form, work);
  const ConfigSpace space = attention_space(kind, target);
  Config config = common::first_config(space);
  if (!is_cuda(target)) {
    // What a block has beyond the end is computed like the rest.
    const auto block = [&](std::string_view name, std::int64_t extent) {
      config.set(name, std::max(kLeastCpuBlock, common::block_over(extent, {kLeastCpuBlock, config.at(name)})));
    };
    block("BLOCK_M", work.queries);
    block("BLOCK_N", work.keys);
    return config;
  }
  // Queries that are few take the fewest rows that hold them.
  std::int64_t rows = config.at("BLOCK_M");
  for (const std::int64_t fewer : space.tunables()[0].values)
    if (fewer < rows && fewer >= work.queries) rows = fewer;
  config.set("BLOCK_M", rows);
  if (is_busy) config.set("BLOCK_N", std::ranges::min(space.tunables()[1].values));
  config.set("num_warps", rows / rows_of_warp(kind));
  return config;
}

}  // namespace kiln::attention
