#include "ops/matmul/launch.hpp"

#include <cstdint>

#include "ops/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/launch_rows.hpp"
#include "ops/matmul/launch_sm90.hpp"
#include "ops/matmul/tiling.hpp"

namespace kiln::matmul {
namespace {

LaunchPlan make_plan(const Problem& problem, const OpCall& op_call, const Config& config, const Target& target) {
  const MatmulCall call = make_call(problem, op_call);
  const OperandClass operands = operand_class(call, target);
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N");
  const KSplit split = split_k(call, config);
  const ops::MatmulIteration it = make_iteration(problem, call, block_m, block_n, split, target);
  const bool limited = is_cuda(target) && call.num_sms > 0 && call.num_sms < it.tiles;

  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  const bool on_gpu = is_cuda(target);
  if (split.num_splits == 1)
    launch.template_arguments.emplace_back(TypeName{call.epilogue_type()});
  else
    launch.template_arguments.emplace_back(call.accumulator);
  launch.template_arguments.emplace_back(operands == OperandClass::tf32);
  launch.template_arguments.emplace_back(order_of(call.a));
  launch.template_arguments.emplace_back(order_of(call.b));
  if (split.num_splits == 1) launch.template_arguments.emplace_back(order_of(call.out));
  for (const std::int64_t size : {block_m, block_n, config.at("BLOCK_K"), on_gpu ? config.at("NUM_STAGES") : 1,
                                  on_gpu ? config.at("GROUP_M") : 1})
    launch.template_arguments.emplace_back(size);
  for (const bool flag : {!call.batch_extents.empty(), limited}) launch.template_arguments.emplace_back(flag);
  for (const DType dtype : {call.a.dtype, call.b.dtype}) launch.template_arguments.emplace_back(dtype);

  launch.arguments.add_tensor(call.a.tensor);
  launch.arguments.add_tensor(call.b.tensor);
  launch.geometry.grid = {limited ? call.num_sms : it.tiles, split.num_splits, 1};
  if (on_gpu) {
    launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
    launch.geometry.shared_bytes = static_cast<std::int32_t>(shared_bytes(operands, config));
  }
  if (split.num_splits == 1) {
    launch.template_arguments.emplace_back(call.addend.dtype);
    launch.template_arguments.emplace_back(call.out.dtype);
    add_epilogue_arguments(call, it, launch.arguments);
    return plan;
  }

  launch.kernel = "kiln::ops::matmul_partial_kernel";
  add_combination(problem, call, it, target, plan);
  return plan;
}

Variant tile_variant(OperandClass operands, const Resolve& resolve, const KernelSource& source) {
  Variant variant;
  variant.name = variant_name(operands);
  variant.doc =
      "tiles of the output, operands in a pipeline of loads; k in parts, which a second kernel adds in order, "
      "where tiles are few";
  variant.source = source;
  variant.kernel = "kiln::ops::matmul_kernel";
  const auto call_of = [resolve](const OpCall& call) { return make_call(resolve(call.inputs, call.attributes), call); };
  variant.serves = [call_of, operands](const OpCall& call, const Target& target) {
    return operand_class(call_of(call), target) == operands;
  };
  variant.space = [operands](const Target& target) { return tile_space(operands, target); };
  variant.default_config = [call_of](const OpCall& call, const Target& target) {
    return default_tiling(call_of(call), target);
  };
  variant.plan = [resolve](const OpCall& call, const Config& config, const Target& target) {
    return make_plan(resolve(call.inputs, call.attributes), call, config, target);
  };
  return variant;
}

}  // namespace

std::vector<Variant> matmul_variants(const Resolve& resolve) {
  const KernelSource source = embedded_source("ops/matmul/kernel.hpp");
  std::vector<Variant> variants = {rows_variant(false, resolve, source), rows_variant(true, resolve, source)};
  for (Variant& variant : sm90_variants(resolve)) variants.push_back(std::move(variant));
  for (const OperandClass operands : kOperandClasses) variants.push_back(tile_variant(operands, resolve, source));
  return variants;
}

}  // namespace kiln::matmul
