#include "ops/matmul/launch_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/call_sm90.hpp"
#include "ops/matmul/estimate_sm90.hpp"
#include "ops/matmul/exchange.hpp"
#include "ops/matmul/tiling_rows.hpp"

namespace kiln::matmul {
namespace {

constexpr std::int64_t kMostRows = 4;

/// The call whose a has the few rows: on GPUs few columns are those of the exchanged product.
MatmulCall with_few_rows(const MatmulCall& call, const Target& target) {
  return is_cuda(target) && call.n <= kMostRows && call.n < call.m ? exchanged(call) : call;
}

ConfigSpace cpu_space() {
  return {{{"BLOCK_N", {64, 16, 4}}, {"BLOCK_K", {64, 16, 4}}, {"UNROLL", {1}}, {"SPLIT_K", {1, 2, 4, 8}}},
          {common::ConfigExpression("BLOCK_N") * "BLOCK_K" == 256}};
}

Config cpu_config(const MatmulCall& call) {
  const std::int64_t block_n = runs_along_k(call) ? 4 : 64;
  return {{"BLOCK_N", block_n}, {"BLOCK_K", 256 / block_n}, {"UNROLL", 1}, {"SPLIT_K", 1}};
}

LaunchPlan make_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const std::int64_t rows = ceil_power_of_two(call.m);
  const std::int64_t block_n = config.at("BLOCK_N"), block_k = config.at("BLOCK_K");
  const KSplit split = split_k(call, config);
  const ops::MatmulIteration it = make_iteration(call, rows, block_n, split, target);

  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  const bool is_whole = split.num_splits == 1;
  launch.template_arguments.emplace_back(first_argument(call, split));
  launch.template_arguments.emplace_back(std::min<std::int64_t>(order_of(call.a) * 2, 2));
  launch.template_arguments.emplace_back(order_of(call.b));
  if (is_whole) launch.template_arguments.emplace_back(order_of(call.out));
  for (const std::int64_t size : {rows, block_n, block_k, config.at("UNROLL")})
    launch.template_arguments.emplace_back(size);
  launch.template_arguments.emplace_back(!call.batch_extents.empty());
  for (const DType dtype : {call.a.dtype, call.b.dtype}) launch.template_arguments.emplace_back(dtype);
  common::KernelParameters parameters(launch);
  parameters.read(call.a.tensor, call.a.dtype).read(call.b.tensor, call.b.dtype);
  launch.geometry.grid = {it.tiles, split.num_splits, 1};
  if (const std::int64_t* num_warps = config.find("num_warps"))
    launch.geometry.num_warps = static_cast<std::int32_t>(*num_warps);
  launch.vector_width = static_cast<std::int32_t>(rows_vector_width(call));
  end_plan(call, it, target, "matmul_rows", plan);
  return plan;
}

}  // namespace

Variant rows_variant(bool is_wide, const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse,
      {.name = is_wide ? "rows_f64" : "rows",
       .doc = "up to four rows times a matrix whose rows or columns are contiguous: the matrix is read once, untouched "
              "by shared memory",
       .source = source,
       .kernel = "kiln::ops::matmul_rows_kernel",
       .serves =
           [is_wide](const FamilyCall& family, const Target& target) {
             const MatmulCall call = with_few_rows(family.matmul, target);
             return call.m <= kMostRows && order_of(call.b) != 2 && call.num_sms == 0 &&
                    (call.a.dtype == DType::f64) == is_wide;
           },
       .space = [is_wide](const Target& target) { return is_cuda(target) ? rows_space(is_wide) : cpu_space(); },
       .plan = [](const FamilyCall& call, const Config& config,
                  const Target& target) { return make_plan(with_few_rows(call.matmul, target), config, target); },
       .estimated_default = [](const FamilyCall& call, const Target& target) -> EstimatedConfig {
         const MatmulCall few = with_few_rows(call.matmul, target);
         if (!is_cuda(target)) return {cpu_config(few), std::nullopt};
         EstimatedConfig choice = rows_default(few, target);
         // A weight is to take few kernels: from two rows on it has those of more, or from three where those copy it.
         // One row of a weight that lies across k takes them too, which are as fast or faster there.
         const std::optional<Sm90Call>& sm90 = call.sm90;
         const bool copies = sm90 && (sm90->a.workspace >= 0 || sm90->b.workspace >= 0);
         const std::int64_t most_rows = copies ? 2 : runs_along_k(few) ? 1 : 0;
         if (call.matmul.m > most_rows && has_sm90_kernel(target) && sm90 && is_of_a_weight(*sm90))
           choice.us = std::numeric_limits<double>::infinity();
         return choice;
       }});
}

}  // namespace kiln::matmul
