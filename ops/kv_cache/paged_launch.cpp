#include "ops/kv_cache/paged_launch.hpp"

#include <cstdint>
#include <utility>

#include "ops/grid.hpp"
#include "ops/kv_cache/paged_call.hpp"
#include "ops/kv_cache/paged_check.hpp"
#include "ops/kv_cache/paged_tiling.hpp"

namespace kiln::kv_cache {
namespace {

std::int64_t itemsize_of(const OpCall& call) {
  return itemsize_bytes(call.outputs[0].dtype);
}

bool is_dense(const ops::PagedGatherIteration& it) {
  return it.cache.element_stride == 1 && it.out_strides[3] == 1;
}

ops::PagedGatherIteration in_bytes(ops::PagedGatherIteration it, std::int64_t itemsize) {
  for (long long* stride : {&it.cache.block_stride, &it.cache.place_stride, &it.cache.head_stride, &it.width})
    *stride *= itemsize;
  for (long long& stride : it.out_strides) stride *= itemsize;
  return it;
}

/// Of one head of one request.
std::int64_t packet_of(const ops::PagedGatherIteration& bytes, std::int64_t itemsize) {
  const std::int64_t multiples[] = {
      bytes.width,          bytes.cache.block_stride, bytes.cache.place_stride, bytes.cache.head_stride,
      bytes.out_strides[0], bytes.out_strides[1],     bytes.out_strides[2]};
  return packet_bytes(itemsize, multiples);
}

/// Arguments of both kernels.
void add_arguments(KernelLaunch& launch, const ops::PagedGatherIteration& it) {
  for (int tensor = 0; tensor < 4; ++tensor) launch.arguments.add_tensor(tensor);
  launch.arguments.add_value(it);
}

LaunchPlan plan_of(KernelLaunch launch, const OpCall& call, const Target& target) {
  LaunchPlan plan;
  plan.launches.push_back(std::move(launch));
  if (call.attributes.get_bool("check_bounds")) add_table_check(plan, call, target);
  return plan;
}

LaunchPlan packets_plan(const OpCall& call, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_of(call);
  ops::PagedGatherIteration it = in_bytes(paged_gather_iteration(call), itemsize);
  const std::int64_t packet = packet_of(it, itemsize);
  it.parts = ceil_div(it.tokens * it.width / packet, batch_packets(config));
  KernelLaunch launch = paged_launch("kv_gather_paged", it.heads * it.parts * call.inputs[1].shape[0], config, target);
  launch.template_arguments = {packet_type(packet),   unsigned_dtype(itemsize), call.inputs[1].dtype,
                               call.inputs[2].dtype,  std::int64_t{it.width},   std::int64_t{it.cache.page},
                               config.at("IN_FLIGHT")};
  launch.vector_width = 1;  // the kernel says itself what a thread moves
  add_arguments(launch, it);
  return plan_of(std::move(launch), call, target);
}

Config packets_default(const OpCall& call) {
  const std::int64_t itemsize = itemsize_of(call);
  const ops::PagedGatherIteration it = in_bytes(paged_gather_iteration(call), itemsize);
  return packets_default_for(call.outputs[0].numel() * itemsize / packet_of(it, itemsize));
}

LaunchPlan rows_plan(const OpCall& call, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_of(call);
  ops::PagedGatherIteration it = paged_gather_iteration(call);
  it.parts = ceil_div(it.tokens, config.at("ROWS"));
  KernelLaunch launch = paged_launch("kv_gather_paged", it.parts * call.inputs[1].shape[0], config, target);
  launch.template_arguments = {unsigned_dtype(itemsize),
                               call.inputs[1].dtype,
                               call.inputs[2].dtype,
                               config.at("ROWS"),
                               config.at("BLOCK_BYTES") / itemsize,
                               is_dense(it)};
  launch.vector_width = is_dense(it) ? static_cast<std::int32_t>(16 / itemsize) : 1;
  add_arguments(launch, it);
  return plan_of(std::move(launch), call, target);
}

}  // namespace

std::vector<Variant> paged_gather_variants() {
  Variant packets;
  packets.name = "packets";
  packets.doc = "rows whose elements lie together, 16 bytes a thread, any page size";
  packets.source = embedded_source("ops/kv_cache/kernel_paged.cuh");
  packets.kernel = "kiln::ops::paged_gather_packets_kernel";
  packets.serves = [](const OpCall& call, const Target& target) {
    const ops::PagedGatherIteration it = paged_gather_iteration(call);
    return is_cuda(target) && is_dense(it) && counts_in_32_bits(it.tokens * it.width) &&
           counts_in_32_bits(it.cache.page);
  };
  packets.space = [](const Target&) { return packets_space(); };
  packets.default_config = [](const OpCall& call, const Target&) { return packets_default(call); };
  packets.plan = packets_plan;

  Variant rows;
  rows.name = "rows";
  rows.doc = "any strides, row after row";
  rows.source = embedded_source("ops/kv_cache/kernel_paged.hpp");
  rows.kernel = "kiln::ops::paged_gather_kernel";
  rows.serves = [](const OpCall&, const Target&) { return true; };
  rows.space = rows_space;
  rows.default_config = [](const OpCall& call, const Target& target) {
    const ops::PagedGatherIteration it = paged_gather_iteration(call);
    return rows_default(it.width * itemsize_of(call), it.heads, target);
  };
  rows.plan = rows_plan;
  return {std::move(packets), std::move(rows)};
}

}  // namespace kiln::kv_cache
