#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/common/grid_launch.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/kv_cache/paged_check.hpp"
#include "ops/kv_cache/paged_launch.hpp"
#include "ops/kv_cache/paged_tiling.hpp"
#include "ops/kv_cache/swap_call.hpp"

namespace kiln::kv_cache {
namespace {

/// What programs together keep on the way to host memory or from it: the wire is full with less than this, and more
/// programs are in the way of what else runs on the GPU.
constexpr std::int64_t kHostBytesInFlight = 512 << 10;
constexpr std::int64_t kLeastHostPrograms = 16, kMostHostPrograms = 64;
/// Four packets for each thread of a warp.
constexpr std::int64_t kWarpBytes = 4 * 32 * 16;
/// Where both sides are in the GPU's memory all of it may work.
constexpr std::int64_t kDevicePrograms = 1024;

ops::SwapIteration in_bytes(ops::SwapIteration it, std::int64_t itemsize) {
  it.width *= itemsize;
  for (long long& stride : it.block_strides) stride *= itemsize;
  return it;
}

std::int64_t packet_of(const ops::SwapIteration& bytes, std::int64_t itemsize) {
  const std::int64_t multiples[] = {bytes.width, bytes.block_strides[0], bytes.block_strides[1]};
  return packet_bytes(itemsize, multiples);
}

/// `moved`: what the kernel moves.
LaunchPlan plan_of(KernelLaunch launch, const SwapCall& call, const ops::SwapIteration& it,
                   const common::ElementType& moved, const Target& target) {
  common::KernelParameters(launch).written(0, moved).read(1, moved).read(2, call.mapping).value(it);
  LaunchPlan plan;
  plan.launches.push_back(std::move(launch));
  add_mapping_check(plan, call, target);
  return plan;
}

LaunchPlan packets_plan(const SwapCall& call, const Config& config, const Target& target) {
  const ops::SwapIteration it = in_bytes(call.iteration, call.itemsize());
  const std::int64_t packet = packet_of(it, call.itemsize()), programs = config.at("PROGRAMS");
  const std::int64_t sharers =
      std::clamp<std::int64_t>(ceil_div(it.width / packet, batch_packets(config)), 1, programs);
  KernelLaunch launch = common::grid_launch("swap_blocks", sharers, config, target);
  launch.geometry.grid[1] = std::min<std::int64_t>(std::max<std::int64_t>(programs / sharers, 1), it.pairs);
  launch.template_arguments = {packet_type(packet), unsigned_dtype(call.itemsize()), call.mapping,
                               config.at("IN_FLIGHT")};
  launch.vector_width = 1;  // the kernel says itself what a thread moves
  return plan_of(std::move(launch), call, it, "char", target);
}

ConfigSpace swap_packets_space() {
  const ConfigSpace packets = packets_space();
  std::vector<Tunable> tunables = packets.tunables();
  tunables.push_back({"PROGRAMS", {16, kDevicePrograms, 4, 8, 32, 64, 132, 264, 4096}});
  return {std::move(tunables), packets.constraints()};
}

Config packets_default(const SwapCall& call, const Target&) {
  if (!call.is_host_side) return {{"IN_FLIGHT", 4}, {"num_warps", 8}, {"PROGRAMS", kDevicePrograms}};
  const std::int64_t block_bytes = std::max<std::int64_t>(call.iteration.width * call.itemsize(), 1);
  // A program has one block on the way, or what its threads hold of one.
  const std::int64_t num_warps = std::clamp<std::int64_t>(floor_power_of_two(block_bytes / kWarpBytes), 2, 16);
  const std::int64_t programs = floor_power_of_two(kHostBytesInFlight / std::min(block_bytes, num_warps * kWarpBytes));
  return {{"IN_FLIGHT", 4},
          {"num_warps", num_warps},
          {"PROGRAMS", std::clamp<std::int64_t>(programs, kLeastHostPrograms, kMostHostPrograms)}};
}

LaunchPlan rows_plan(const SwapCall& call, const Config& config, const Target& target) {
  const DType moved = unsigned_dtype(call.itemsize());
  const std::int64_t block = config.at("BLOCK_BYTES") / call.itemsize();
  const std::int64_t piece = config.at("ROWS") * block;
  const ops::SwapIteration& it = call.iteration;
  KernelLaunch launch = common::grid_launch("swap_blocks", ceil_div(it.width, piece), config, target);
  launch.geometry.grid[1] = std::min<std::int64_t>(it.pairs, kDevicePrograms);
  launch.template_arguments = {moved, call.mapping, piece, block};
  launch.vector_width = static_cast<std::int32_t>(16 / call.itemsize());
  return plan_of(std::move(launch), call, it, moved, target);
}

}  // namespace

std::vector<Variant> swap_variants() {
  const SwapParser parse(swap_call);
  return {common::variant_of<SwapCall>(parse,
                                       {.name = "packets",
                                        .doc = "16 bytes a thread, programs that take pair after pair",
                                        .source = embedded_source("ops/kv_cache/kernel_paged.cuh"),
                                        .kernel = "kiln::ops::swap_blocks_packets_kernel",
                                        .serves = [](const SwapCall&, const Target& target) { return is_cuda(target); },
                                        .space = [](const Target&) { return swap_packets_space(); },
                                        .default_config = packets_default,
                                        .plan = packets_plan}),
          common::variant_of<SwapCall>(
              parse, {.name = "rows",
                      .doc = "ROWS tiles of a block for each program",
                      .source = embedded_source("ops/kv_cache/kernel_paged.hpp"),
                      .kernel = "kiln::ops::swap_blocks_kernel",
                      .space = rows_space,
                      .default_config = [](const SwapCall&,
                                           const Target&) { return Config{{"ROWS", 64}, {"BLOCK_BYTES", 1024}}; },
                      .plan = rows_plan})};
}

}  // namespace kiln::kv_cache
