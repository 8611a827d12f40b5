#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/grid.hpp"
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

std::int64_t itemsize_of(const OpCall& call) {
  return itemsize_bytes(call.inputs[0].dtype);
}

bool is_host_side(const OpCall& call) {
  return !call.inputs[0].device.is_cuda() || !call.inputs[1].device.is_cuda();
}

ops::SwapIteration in_bytes(ops::SwapIteration it, std::int64_t itemsize) {
  it.width *= itemsize;
  for (long long& stride : it.block_strides) stride *= itemsize;
  return it;
}

std::int64_t packet_of(const ops::SwapIteration& bytes, std::int64_t itemsize) {
  const std::int64_t multiples[] = {bytes.width, bytes.block_strides[0], bytes.block_strides[1]};
  return packet_bytes(itemsize, multiples);
}

LaunchPlan plan_of(KernelLaunch launch, const ops::SwapIteration& it, const OpCall& call, const Target& target) {
  for (int tensor = 0; tensor < 3; ++tensor) launch.arguments.add_tensor(tensor);
  launch.arguments.add_value(it);
  LaunchPlan plan;
  plan.launches.push_back(std::move(launch));
  if (call.attributes.get_bool("check_bounds")) add_mapping_check(plan, call, target);
  return plan;
}

LaunchPlan packets_plan(const OpCall& call, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_of(call);
  const ops::SwapIteration it = in_bytes(swap_iteration(call), itemsize);
  const std::int64_t packet = packet_of(it, itemsize), programs = config.at("PROGRAMS");
  const std::int64_t sharers =
      std::clamp<std::int64_t>(ceil_div(it.width / packet, batch_packets(config)), 1, programs);
  KernelLaunch launch = paged_launch("swap_blocks", sharers, config, target);
  launch.geometry.grid[1] = std::min<std::int64_t>(std::max<std::int64_t>(programs / sharers, 1), it.pairs);
  launch.template_arguments = {packet_type(packet), unsigned_dtype(itemsize), call.inputs[2].dtype,
                               config.at("IN_FLIGHT")};
  launch.vector_width = 1;  // the kernel says itself what a thread moves
  return plan_of(std::move(launch), it, call, target);
}

ConfigSpace swap_packets_space() {
  const ConfigSpace packets = packets_space();
  std::vector<Tunable> tunables = packets.tunables();
  tunables.push_back({"PROGRAMS", {16, kDevicePrograms, 4, 8, 32, 64, 132, 264, 4096}});
  return {std::move(tunables), packets.constraints()};
}

Config packets_default(const OpCall& call) {
  if (!is_host_side(call)) return {{"IN_FLIGHT", 4}, {"num_warps", 8}, {"PROGRAMS", kDevicePrograms}};
  const std::int64_t block_bytes = std::max<std::int64_t>(swap_iteration(call).width * itemsize_of(call), 1);
  // A program has one block on the way, or what its threads hold of one.
  const std::int64_t num_warps = std::clamp<std::int64_t>(floor_power_of_two(block_bytes / kWarpBytes), 2, 16);
  const std::int64_t programs = floor_power_of_two(kHostBytesInFlight / std::min(block_bytes, num_warps * kWarpBytes));
  return {{"IN_FLIGHT", 4},
          {"num_warps", num_warps},
          {"PROGRAMS", std::clamp<std::int64_t>(programs, kLeastHostPrograms, kMostHostPrograms)}};
}

LaunchPlan rows_plan(const OpCall& call, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_of(call), block = config.at("BLOCK_BYTES") / itemsize;
  const std::int64_t piece = config.at("ROWS") * block;
  const ops::SwapIteration it = swap_iteration(call);
  KernelLaunch launch = paged_launch("swap_blocks", ceil_div(it.width, piece), config, target);
  launch.geometry.grid[1] = std::min<std::int64_t>(it.pairs, kDevicePrograms);
  launch.template_arguments = {unsigned_dtype(itemsize), call.inputs[2].dtype, piece, block};
  launch.vector_width = static_cast<std::int32_t>(16 / itemsize);
  return plan_of(std::move(launch), it, call, target);
}

}  // namespace

std::vector<Variant> swap_variants() {
  Variant packets;
  packets.name = "packets";
  packets.doc = "16 bytes a thread, programs that take pair after pair";
  packets.source = embedded_source("ops/kv_cache/kernel_paged.cuh");
  packets.kernel = "kiln::ops::swap_blocks_packets_kernel";
  packets.serves = [](const OpCall&, const Target& target) { return is_cuda(target); };
  packets.space = [](const Target&) { return swap_packets_space(); };
  packets.default_config = [](const OpCall& call, const Target&) { return packets_default(call); };
  packets.plan = packets_plan;

  Variant rows;
  rows.name = "rows";
  rows.doc = "ROWS tiles of a block for each program";
  rows.source = embedded_source("ops/kv_cache/kernel_paged.hpp");
  rows.kernel = "kiln::ops::swap_blocks_kernel";
  rows.serves = [](const OpCall&, const Target&) { return true; };
  rows.space = rows_space;
  rows.default_config = [](const OpCall&, const Target&) { return Config{{"ROWS", 64}, {"BLOCK_BYTES", 1024}}; };
  rows.plan = rows_plan;
  return {std::move(packets), std::move(rows)};
}

}  // namespace kiln::kv_cache
