#include "ops/matmul/launch_blocked.hpp"

#include <algorithm>
#include <cstdint>

#include "core/cpu_features.hpp"
#include "core/cpu_stack.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/tiling.hpp"

namespace kiln::matmul {
namespace {

/// Programs that are enough for threads to share evenly.
constexpr std::int64_t kEnoughPrograms = 8;

/// Rows that one program takes whole; half as many of f64.
std::int64_t most_block_m(const MatmulCall& call) {
  return call.accumulator == DType::f64 ? 192 : 384;
}

/// A program's sums, rows of a and panels of b lie on the stack, at `item_bytes` each. Those of batches are never made
/// for all programs.
ConfigSpace blocked_space(std::int64_t item_bytes) {
  using common::ConfigExpression;
  const ConfigExpression m("BLOCK_M"), n("BLOCK_N"), k("BLOCK_K");
  return {{{"ROWS", {8, 6, 12}},
           {"BLOCK_M", {192, 96, 48, 384, 24}},
           {"BLOCK_N", {512, 1024, 256, 128}},
           {"BLOCK_K", {256, 384, 128}},
           {"PACK_A", {1, 0}},
           {"SPLIT_K", {1, 2, 4, 8}},
           {"SHARED_PANELS", {0, 1}}},
          {m * n + m * k + n * k <= kMostCpuKernelStackBytes * 7 / 8 / item_bytes}};
}

LaunchPlan blocked_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const std::int64_t width = 2 * cpu_vector_bytes(target.features) / itemsize_bytes(call.accumulator);
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N"), block_k = config.at("BLOCK_K");
  const KSplit split = split_k(call, config);
  // Panels for all programs have all of k.
  const bool shares_panels = config.at("SHARED_PANELS") != 0 && call.batch_extents.empty() && split.num_splits == 1;
  // Blocks of rows that are read where they lie have all their rows.
  const bool packs_a = config.at("PACK_A") != 0 || order_of(call.a) != 0 || call.a.dtype != call.accumulator ||
                       call.m < config.at("ROWS");
  const ops::MatmulIteration it = make_iteration(call, block_m, block_n, split, target);

  LaunchPlan plan;
  if (shares_panels) {
    const std::int64_t panels = ceil_div(call.n, width);
    plan.workspace_bytes.push_back(panels * width * ceil_div(call.k, ops::kPanelRows) * ops::kPanelRows *
                                   itemsize_bytes(call.accumulator));
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.kernel = "kiln::ops::matmul_panels_kernel";
    launch.template_arguments = {order_of(call.b), width, block_k, call.b.dtype, call.accumulator};
    launch.geometry.grid = {panels, ceil_div(call.k, block_k), 1};
    common::KernelParameters(launch).read(call.b.tensor, call.b.dtype).written_workspace(0, call.accumulator).value(it);
  }
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments.emplace_back(first_argument(call, split));
  for (const std::int64_t number : {order_of(call.a), order_of(call.b), split.num_splits == 1 ? order_of(call.out) : 0,
                                    config.at("ROWS"), width, block_m, block_n, block_k})
    launch.template_arguments.emplace_back(number);
  for (const bool flag : {packs_a, shares_panels, !call.batch_extents.empty()})
    launch.template_arguments.emplace_back(flag);
  for (const DType dtype : {call.a.dtype, shares_panels ? call.accumulator : call.b.dtype})
    launch.template_arguments.emplace_back(dtype);
  common::KernelParameters parameters(launch);
  parameters.read(call.a.tensor, call.a.dtype);
  if (shares_panels)
    parameters.read_workspace(0, call.accumulator);
  else
    parameters.read(call.b.tensor, call.b.dtype);
  launch.geometry.grid = {it.tiles, split.num_splits, 1};
  end_plan(call, it, target, "matmul_blocked", plan);
  return plan;
}

Config blocked_config(const MatmulCall& call, const Target& target) {
  // One program's rows where they are few: b is then packed once without a pass over memory of its own, which costs as
  // much as four readings of it.
  const bool shares_panels = call.m > 3 * most_block_m(call) && call.batch_extents.empty();
  std::int64_t block_m =
      shares_panels ? 96
                    : std::clamp<std::int64_t>(ceil_power_of_two(ceil_div(call.m, 3)), 8, most_block_m(call) / 3) * 3;
  std::int64_t block_n = shares_panels ? (call.accumulator == DType::f64 ? 512 : 1024) : 256;
  const auto programs = [&] { return ceil_div(call.m, block_m) * ceil_div(call.n, block_n) * call.batches(); };
  while (programs() < kEnoughPrograms && block_n > 128) block_n /= 2;
  while (programs() < kEnoughPrograms && block_m > 48) block_m /= 2;
  // Few programs share what is worth it along k too.
  std::int64_t split = 1;
  while (!shares_panels && split < 8 && programs() * split < kEnoughPrograms / 2 && call.k / (split * 2) >= 2048)
    split *= 2;
  return {{"ROWS", cpu_vector_bytes(target.features) >= 64 ? 8 : 6},
          {"BLOCK_M", block_m},
          {"BLOCK_N", block_n},
          {"BLOCK_K", 256},
          {"PACK_A", call.n > 128},
          {"SPLIT_K", split},
          {"SHARED_PANELS", shares_panels}};
}

}  // namespace

Variant blocked_variant(bool is_wide, const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse, {.name = is_wide ? "blocked_f64" : "blocked",
              .doc = "CPU: parts of k one after the other, b in panels that all programs read, a packed by each",
              .source = source,
              .kernel = "kiln::ops::matmul_blocked_kernel",
              .serves =
                  [is_wide](const FamilyCall& family, const Target& target) {
                    const DType sums = family.matmul.accumulator;
                    return !is_cuda(target) && family.matmul.k > 0 && sums == (is_wide ? DType::f64 : DType::f32);
                  },
              .space = [is_wide](const Target&) { return blocked_space(is_wide ? 8 : 4); },
              .default_config = [](const FamilyCall& call,
                                   const Target& target) { return blocked_config(call.matmul, target); },
              .plan = [](const FamilyCall& call, const Config& config,
                         const Target& target) { return blocked_plan(call.matmul, config, target); }});
}

}  // namespace kiln::matmul
