#include "ops/matmul/launch_thin.hpp"

#include <algorithm>
#include <cstdint>

#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/tiling_thin.hpp"

namespace kiln::matmul {
namespace {

/// Of k: beyond, ptxas puts loads between products, where each waits for the one before, and other kernels are faster.
constexpr std::int64_t kMostDepth = 64;

LaunchPlan make_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const auto block = [&](const char* name, std::int64_t extent) {
    return std::min(config.at(name), floor_power_of_two(extent));
  };
  const std::int64_t block_m = block("BLOCK_M", call.m), block_n = block("BLOCK_N", call.n);
  const KSplit whole{1, call.k};
  const ops::MatmulIteration it = make_iteration(call, block_m, block_n, whole, target);
  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments.emplace_back(first_argument(call, whole));
  for (const Matrix* matrix : {&call.a, &call.b, &call.out}) launch.template_arguments.emplace_back(order_of(*matrix));
  for (const std::int64_t size : {block_m, block_n, config.at("UNROLL")}) launch.template_arguments.emplace_back(size);
  launch.template_arguments.emplace_back(!call.batch_extents.empty());
  for (const DType dtype : {call.a.dtype, call.b.dtype}) launch.template_arguments.emplace_back(dtype);
  common::KernelParameters parameters(launch);
  parameters.read(call.a.tensor, call.a.dtype).read(call.b.tensor, call.b.dtype);
  launch.geometry.grid = {it.tiles, 1, 1};
  launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
  launch.vector_width = 1;  // lines of any alignment
  end_plan(call, it, target, "matmul_thin", plan);
  return plan;
}

}  // namespace

Variant thin_variant(const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse, {.name = "thin",
              .doc = "little to sum: outputs in registers, operands of any strides straight from memory",
              .source = source,
              .kernel = "kiln::ops::matmul_thin_kernel",
              .serves =
                  [](const FamilyCall& family, const Target& target) {
                    const MatmulCall& call = family.matmul;
                    return is_cuda(target) && call.num_sms == 0 && std::min({call.m, call.n, call.k}) >= 1 &&
                           call.k <= kMostDepth;
                  },
              .space = [](const Target&) { return thin_space(); },
              .plan = [](const FamilyCall& family, const Config& config,
                         const Target& target) { return make_plan(family.matmul, config, target); },
              .estimated_default = [](const FamilyCall& family,
                                      const Target& target) { return thin_default(family.matmul, target); }});
}

}  // namespace kiln::matmul
