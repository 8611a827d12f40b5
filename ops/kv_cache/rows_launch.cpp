#include "ops/kv_cache/rows_launch.hpp"

#include <algorithm>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/kv_cache/rows_arguments.hpp"

namespace kiln::kv_cache {
namespace {

/// What a program should move, so that starting it is not the limit; on the CPU so long that none is timed before the
/// rest is spread.
constexpr std::int64_t kCudaProgramBytes = 16 << 10, kCpuProgramBytes = 256 << 10;

ConfigSpace tiles_space(const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_BYTES", {128, 256, 512, 64, 32, 16}}}, {}};
  return {{{"BLOCK_BYTES", {512, 1024, 2048, 256, 128}}, {"num_warps", {1, 2, 4}}},
          {128 * common::ConfigExpression("num_warps") <= "BLOCK_BYTES"}};
}

/// On the CPU a row's last block, where it is not whole, costs as much as several whole ones: blocks that fit.
Config tiles_default(std::int64_t row_bytes, const Target& target) {
  if (!is_cuda(target)) return {{"BLOCK_BYTES", std::clamp<std::int64_t>(row_bytes & -row_bytes, 16, 128)}};
  return {{"BLOCK_BYTES", std::clamp<std::int64_t>(ceil_power_of_two(row_bytes), 128, 1024)}, {"num_warps", 1}};
}

LaunchPlan tiles_plan(const RowsCall& call, const Config& config, const Target& target) {
  const ops::RowsIteration& it = call.iteration;
  const std::int64_t program_bytes = is_cuda(target) ? kCudaProgramBytes : kCpuProgramBytes;
  const std::int64_t share = std::max<std::int64_t>(program_bytes / std::max(it.row_bytes, 1LL), 1);
  const std::int64_t programs = ceil_div(it.pairs, share);
  check_grid(call.op, programs, target);
  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments = {call.index, call.count, call.slot, config.at("BLOCK_BYTES")};
  launch.geometry.grid = {programs, 1, 1};
  if (is_cuda(target)) launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
  launch.vector_width = 16;
  common::KernelParameters(launch)
      .written(tensor_of(call, kDst), DType::u8)
      .read(tensor_of(call, kSrc), DType::u8)
      .read(tensor_of(call, kIndices), call.index)
      .read(tensor_of(call, kCounts), call.count)
      .written(tensor_of(call, kSlotMap), call.slot)
      .value(it)
      .value(static_cast<long long>(share));
  add_rows_check(call, target, plan);
  return plan;
}

}  // namespace

std::vector<Variant> rows_variants(const RowsParser& parse) {
  return {warps_variant(parse),
          common::variant_of<RowsCall>(parse, {.name = "tiles",
                                               .doc = "rows one after the other, a tile of bytes at a time",
                                               .source = embedded_source("ops/kv_cache/kernel_rows.hpp"),
                                               .kernel = "kiln::ops::copy_rows_kernel",
                                               .space = tiles_space,
                                               .default_config =
                                                   [](const RowsCall& call, const Target& target) {
                                                     return tiles_default(call.iteration.row_bytes, target);
                                                   },
                                               .plan = tiles_plan})};
}

}  // namespace kiln::kv_cache
