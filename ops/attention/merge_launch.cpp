#include "ops/attention/merge_launch.hpp"

#include <algorithm>
#include <utility>

#include "ops/common/block_choice.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid_launch.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::attention {
namespace {

constexpr const char* kMergeKernel = "kiln::ops::merge_attention_kernel";
constexpr std::int64_t kMostParts = 64, kMostColumns = 256, kMostWarps = 8;
constexpr std::int64_t kMostNumbersEach = 2048;  ///< for a warp

LaunchPlan merge_plan(const MergeCall& merge, const Config& config, const Target& target) {
  LaunchPlan plan;
  if (merge.places == 0) return plan;
  KernelLaunch& launch = plan.launches.emplace_back(merge_launch(kMergeOp, merge, config, target));
  const int outputs = merge.returns_lse ? 2 : 1;
  common::KernelParameters(launch)
      .written(0, merge.out)
      .written(merge.returns_lse ? 1 : -1, DType::f32)
      .read(outputs, merge.in)
      .read(outputs + 1, DType::f32)
      .value(merge.iteration);
  return plan;
}

}  // namespace

ConfigSpace merge_space(const Target& target) {
  if (!is_cuda(target)) return {{{"PARTS", {1, 2, 4}}, {"BLOCK_N", {128, 64, 256, 32, 16}}}, {}};
  const common::ConfigExpression tile = common::ConfigExpression("PARTS") * "BLOCK_N", warps("num_warps");
  return {{{"PARTS", {8, 4, 2, 16, 32, 64}}, {"BLOCK_N", {128, 64, 256, 32, 16}}, {"num_warps", {1, 2, 4, 8}}},
          {tile >= 32 * warps, tile <= kMostNumbersEach * warps}};
}

Config default_merge_tiling(const MergeCall& merge, const Target& target) {
  const ops::MergeIteration& it = merge.iteration;
  const std::int64_t columns = std::clamp<std::int64_t>(ceil_power_of_two(it.places.length), 16, kMostColumns);
  if (!is_cuda(target)) return {{"PARTS", 1}, {"BLOCK_N", columns}};
  // All parts in one step, whose loads are all in flight together, with 16 numbers or so for each thread: those of a
  // request of 32,768 tokens took 7 us in steps of 16 on an H100, where two parts take 2.
  const std::int64_t parts = std::clamp<std::int64_t>(ceil_power_of_two(it.parts), 2, kMostParts);
  return {{"PARTS", parts},
          {"BLOCK_N", columns},
          {"num_warps", std::clamp<std::int64_t>(floor_power_of_two(parts * columns / 512), 1, kMostWarps)}};
}

KernelLaunch merge_launch(const char* op, const MergeCall& merge, const Config& config, const Target& target) {
  const ops::LineIteration& rows = merge.iteration.places;
  KernelLaunch launch = common::grid_launch(op, merge.places, config, target);
  launch.source = embedded_source("ops/attention/kernel_merge.hpp");
  launch.kernel = kMergeKernel;
  launch.geometry.grid[1] = std::max<std::int64_t>(ceil_div(rows.length, config.at("BLOCK_N")), 1);
  launch.template_arguments = {merge.in,           merge.out,
                               merge.returns_lse,  rows.steps[0] == 1 && rows.steps[1] == 1,
                               config.at("PARTS"), config.at("BLOCK_N")};
  return launch;
}

std::vector<Variant> merge_variants() {
  return {common::variant_of<MergeCall>({merge_call}, {.name = "rows",
                                                       .doc = "a row of a head for each program",
                                                       .source = embedded_source("ops/attention/kernel_merge.hpp"),
                                                       .kernel = kMergeKernel,
                                                       .space = merge_space,
                                                       .default_config = default_merge_tiling,
                                                       .plan = merge_plan})};
}

}  // namespace kiln::attention
