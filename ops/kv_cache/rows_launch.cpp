#include "ops/kv_cache/rows_launch.hpp"

#include <algorithm>
#include <string>

#include "ops/grid.hpp"
#include "ops/kv_cache/rows_arguments.hpp"

namespace kiln::kv_cache {
namespace {

/// What a program should move, so that starting it is not the limit; on the CPU so long that none is timed before the
/// rest is spread.
constexpr std::int64_t kCudaProgramBytes = 16 << 10, kCpuProgramBytes = 256 << 10;

ConfigSpace tiles_space(const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_BYTES", {128, 256, 512, 64, 32, 16}}}, {}};
  return {{{"BLOCK_BYTES", {512, 1024, 2048, 256, 128}}, {"num_warps", {1, 2, 4}}},
          {{"128 * num_warps <= BLOCK_BYTES",
            [](const Config& config) { return config.at("BLOCK_BYTES") >= 128 * config.at("num_warps"); }}}};
}

/// On the CPU a row's last block, where it is not whole, costs as much as several whole ones: blocks that fit.
Config tiles_default(std::int64_t row_bytes, const Target& target) {
  if (!is_cuda(target)) return {{"BLOCK_BYTES", std::clamp<std::int64_t>(row_bytes & -row_bytes, 16, 128)}};
  return {{"BLOCK_BYTES", std::clamp<std::int64_t>(ceil_power_of_two(row_bytes), 128, 1024)}, {"num_warps", 1}};
}

LaunchPlan tiles_plan(std::string_view op, const RowsCall& call, const Config& config, const Target& target) {
  const ops::RowsIteration& it = call.iteration;
  const std::int64_t program_bytes = is_cuda(target) ? kCudaProgramBytes : kCpuProgramBytes;
  const std::int64_t share = std::max<std::int64_t>(program_bytes / std::max(it.row_bytes, 1LL), 1);
  const std::int64_t programs = ceil_div(it.pairs, share);
  check_grid(op, programs, target);
  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments = {call.index, call.count, call.slot, config.at("BLOCK_BYTES")};
  launch.geometry.grid = {programs, 1, 1};
  if (is_cuda(target)) launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
  launch.vector_width = 16;
  for (const RowsInput input : {kDst, kSrc, kIndices, kCounts, kSlotMap}) add_input(launch.arguments, call, input);
  launch.arguments.add_value(it);
  launch.arguments.add_value(share);
  add_rows_check(op, call, target, plan);
  return plan;
}

Variant tiles_variant(std::string_view name) {
  const std::string op(name);
  Variant variant;
  variant.name = "tiles";
  variant.doc = "rows one after the other, a tile of bytes at a time";
  variant.source = embedded_source("ops/kv_cache/kernel_rows.hpp");
  variant.kernel = "kiln::ops::copy_rows_kernel";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = tiles_space;
  variant.default_config = [](const OpCall& call, const Target& target) {
    return tiles_default(rows_call(call).iteration.row_bytes, target);
  };
  variant.plan = [op](const OpCall& call, const Config& config, const Target& target) {
    return tiles_plan(op, rows_call(call), config, target);
  };
  return variant;
}

}  // namespace

std::vector<Variant> rows_variants(std::string_view op) {
  return {warps_variant(op), tiles_variant(op)};
}

}  // namespace kiln::kv_cache
