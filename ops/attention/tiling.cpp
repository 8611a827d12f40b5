#include "ops/attention/tiling.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

bool has_wgmma(const Target& target) {
  return target.arch == "sm_90a";
}

/// Queries, keys and stages of a program on a GPU. A dot_operand has 48 KiB for all, so that 64 queries are as many of
/// 256 numbers as there may be; stages are for 227 KiB of shared memory on sm_90a, and for 99 KiB elsewhere.
std::vector<Tunable> gpu_tunables(const HeadKind& kind, const Target& target) {
  const auto tunables = [](std::vector<std::int64_t> m, std::vector<std::int64_t> n, std::vector<std::int64_t> stages,
                           std::vector<std::int64_t> warps) -> std::vector<Tunable> {
    return {{"BLOCK_M", std::move(m)},
            {"BLOCK_N", std::move(n)},
            {"NUM_STAGES", std::move(stages)},
            {"num_warps", std::move(warps)}};
  };
  if (kind.is_float) {
    if (kind.most_dim == 64) return tunables({64, 32}, {32, 64}, {2}, {4, 2});
    if (kind.most_dim == 128) return tunables({64, 32}, {32, 16}, {2}, {4, 2});
    return tunables({32}, {16}, {2}, {2});
  }
  if (has_wgmma(target)) {
    if (kind.most_dim == 64) return tunables({128, 64}, {128, 64}, {2, 3}, {8, 4});
    if (kind.most_dim == 128) return tunables({128, 64}, {128, 64}, {2, 3}, {8, 4});
    return tunables({64}, {64, 32}, {2, 3}, {4});
  }
  if (kind.most_dim == 64) return tunables({128, 64, 16}, {64, 32}, {2, 3}, {8, 4, 1});
  if (kind.most_dim == 128) return tunables({64, 128, 16}, {64, 32}, {2}, {4, 8, 1});
  return tunables({64, 16}, {32, 16}, {2}, {4, 1});
}

}  // namespace

std::string HeadKind::name() const {
  return fmt::format("{}_{}", is_float ? "float" : "half", most_dim);
}

bool HeadKind::serves(const AttentionCall& call) const {
  const std::int64_t dim = std::max<std::int64_t>(call.padded_dim(), 64);
  return dim == most_dim && (call.dtype == DType::f32) == is_float;
}

ConfigSpace attention_space(const HeadKind& kind, const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_M", {64, 128, 32, 16}}, {"BLOCK_N", {128, 64}}}, {}};
  // Each warp has whole rows, so that probabilities stay in registers from one product to the next.
  return {gpu_tunables(kind, target),
          {common::ConfigExpression("BLOCK_M") == 16 * common::ConfigExpression("num_warps")}};
}

Config default_tiling(const HeadKind& kind, const AttentionCall& call, const Target& target) {
  const ConfigSpace space = attention_space(kind, target);
  Config config = common::first_config(space);
  // Queries that are few take the fewest rows that hold them.
  std::int64_t rows = config.at("BLOCK_M");
  for (const std::int64_t fewer : space.tunables()[0].values)
    if (fewer < rows && fewer >= call.problem.queries) rows = fewer;
  config.set("BLOCK_M", rows);
  if (is_cuda(target)) config.set("num_warps", rows / 16);
  return config;
}

}  // namespace kiln::attention
