#include "ops/matmul/launch.hpp"

#include <cstdint>

#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/launch_blocked.hpp"
#include "ops/matmul/launch_direct.hpp"
#include "ops/matmul/launch_rows.hpp"
#include "ops/matmul/launch_sm90.hpp"
#include "ops/matmul/launch_thin.hpp"
#include "ops/matmul/tiling.hpp"

namespace kiln::matmul {
namespace {

LaunchPlan make_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const OperandClass operands = operand_class(call, target);
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N");
  const KSplit split = split_k(call, config);
  const ops::MatmulIteration it = make_iteration(call, block_m, block_n, split, target);
  const bool limited = is_cuda(target) && call.num_sms > 0 && call.num_sms < it.tiles;

  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  const bool on_gpu = is_cuda(target);
  launch.template_arguments.emplace_back(first_argument(call, split));
  launch.template_arguments.emplace_back(operands == OperandClass::tf32);
  launch.template_arguments.emplace_back(order_of(call.a));
  launch.template_arguments.emplace_back(order_of(call.b));
  if (split.num_splits == 1) launch.template_arguments.emplace_back(order_of(call.out));
  for (const std::int64_t size : {block_m, block_n, config.at("BLOCK_K"), on_gpu ? config.at("NUM_STAGES") : 1,
                                  on_gpu ? config.at("GROUP_M") : 1})
    launch.template_arguments.emplace_back(size);
  for (const bool flag : {!call.batch_extents.empty(), limited}) launch.template_arguments.emplace_back(flag);
  for (const DType dtype : {call.a.dtype, call.b.dtype}) launch.template_arguments.emplace_back(dtype);

  common::KernelParameters parameters(launch);
  parameters.read(call.a.tensor, call.a.dtype).read(call.b.tensor, call.b.dtype);
  launch.geometry.grid = {limited ? call.num_sms : it.tiles, split.num_splits, 1};
  if (on_gpu) {
    launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
    launch.geometry.shared_bytes = static_cast<std::int32_t>(shared_bytes(operands, config));
  }
  end_plan(call, it, target, "matmul", plan);
  return plan;
}

Variant tile_variant(OperandClass operands, const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse,
      {.name = variant_name(operands),
       .doc = "tiles of the output, operands in a pipeline of loads; k in parts, which a second kernel adds in order, "
              "where tiles are few",
       .source = source,
       .kernel = "kiln::ops::matmul_kernel",
       .serves = [operands](const FamilyCall& call,
                            const Target& target) { return operand_class(call.matmul, target) == operands; },
       .space = [operands](const Target& target) { return tile_space(operands, target); },
       .plan = [](const FamilyCall& call, const Config& config,
                  const Target& target) { return make_plan(call.matmul, config, target); },
       .estimated_default = [](const FamilyCall& call,
                               const Target& target) { return default_tiling(call.matmul, target); }});
}

}  // namespace

std::vector<Variant> matmul_variants(const Resolve& resolve) {
  const MatmulParser parse([resolve](const OpCall& call) {
    FamilyCall result{make_call(resolve(call.inputs, call.attributes), call), std::nullopt};
    result.sm90 = sm90_call(result.matmul, call);
    return result;
  });
  const KernelSource source = embedded_source("ops/matmul/kernel.hpp");
  std::vector<Variant> variants = {stream_variant(parse, source),        inner_variant(parse, source),
                                   outer_variant(parse, source),         blocked_variant(false, parse, source),
                                   blocked_variant(true, parse, source), rows_variant(false, parse, source),
                                   rows_variant(true, parse, source)};
  variants.push_back(thin_variant(parse, source));
  for (Variant& variant : sm90_variants(parse)) variants.push_back(std::move(variant));
  for (const OperandClass operands : kOperandClasses) variants.push_back(tile_variant(operands, parse, source));
  return variants;
}

}  // namespace kiln::matmul
