#include "ops/kv_cache/paged_launch.hpp"

#include <cstdint>
#include <utility>

#include "ops/common/grid_launch.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/kv_cache/paged_call.hpp"
#include "ops/kv_cache/paged_check.hpp"
#include "ops/kv_cache/paged_tiling.hpp"

namespace kiln::kv_cache {
namespace {

bool is_dense(const ops::PagedGatherIteration& it) {
  return it.cache.element_stride == 1 && it.out_strides[3] == 1;
}

ops::PagedGatherIteration in_bytes(ops::PagedGatherIteration it, std::int64_t itemsize) {
  for (long long* stride : {&it.cache.block_stride, &it.cache.place_stride, &it.cache.head_stride, &it.width})
    *stride *= itemsize;
  for (long long& stride : it.out_strides) stride *= itemsize;
  return it;
}

/// Bytes of the packets in which one head of one request is moved.
std::int64_t packet_of(const ops::PagedGatherIteration& bytes, std::int64_t itemsize) {
  const std::int64_t multiples[] = {
      bytes.width,          bytes.cache.block_stride, bytes.cache.place_stride, bytes.cache.head_stride,
      bytes.out_strides[0], bytes.out_strides[1],     bytes.out_strides[2]};
  return packet_bytes(itemsize, multiples);
}

/// `moved`: what the kernel moves.
LaunchPlan plan_of(KernelLaunch launch, const PagedGatherCall& call, const ops::PagedGatherIteration& it,
                   const common::ElementType& moved, const Target& target) {
  common::KernelParameters(launch).written(0, moved).read(1, moved).read(2, call.table).read(3, call.lengths).value(it);
  LaunchPlan plan;
  plan.launches.push_back(std::move(launch));
  add_table_check(plan, call, target);
  return plan;
}

LaunchPlan packets_plan(const PagedGatherCall& call, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_bytes(call.dtype);
  ops::PagedGatherIteration it = in_bytes(call.iteration, itemsize);
  const std::int64_t packet = packet_of(it, itemsize);
  it.parts = ceil_div(it.tokens * it.width / packet, batch_packets(config));
  KernelLaunch launch = common::grid_launch("kv_gather_paged", it.heads * it.parts * call.requests, config, target);
  launch.template_arguments = {packet_type(packet),   unsigned_dtype(itemsize), call.table,
                               call.lengths,          std::int64_t{it.width},   std::int64_t{it.cache.page},
                               config.at("IN_FLIGHT")};
  launch.vector_width = 1;  // the kernel says itself what a thread moves
  return plan_of(std::move(launch), call, it, "char", target);
}

Config packets_default(const PagedGatherCall& call, const Target&) {
  const std::int64_t itemsize = itemsize_bytes(call.dtype);
  const ops::PagedGatherIteration it = in_bytes(call.iteration, itemsize);
  return packets_default_for(call.requests * it.heads * it.tokens * it.width / packet_of(it, itemsize));
}

LaunchPlan rows_plan(const PagedGatherCall& call, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_bytes(call.dtype);
  const DType moved = unsigned_dtype(itemsize);
  ops::PagedGatherIteration it = call.iteration;
  it.parts = ceil_div(it.tokens, config.at("ROWS"));
  KernelLaunch launch = common::grid_launch("kv_gather_paged", it.parts * call.requests, config, target);
  launch.template_arguments = {
      moved, call.table, call.lengths, config.at("ROWS"), config.at("BLOCK_BYTES") / itemsize, is_dense(it)};
  launch.vector_width = is_dense(it) ? static_cast<std::int32_t>(16 / itemsize) : 1;
  return plan_of(std::move(launch), call, it, moved, target);
}

bool serves_packets(const PagedGatherCall& call, const Target& target) {
  const ops::PagedGatherIteration& it = call.iteration;
  return is_cuda(target) && is_dense(it) && counts_in_32_bits(it.tokens * it.width) && counts_in_32_bits(it.cache.page);
}

}  // namespace

std::vector<Variant> paged_gather_variants() {
  const PagedGatherParser parse(paged_gather_call);
  return {common::variant_of<PagedGatherCall>(
              parse, {.name = "packets",
                      .doc = "rows whose elements lie together, 16 bytes a thread, any page size",
                      .source = embedded_source("ops/kv_cache/kernel_paged.cuh"),
                      .kernel = "kiln::ops::paged_gather_packets_kernel",
                      .serves = serves_packets,
                      .space = [](const Target&) { return packets_space(); },
                      .default_config = packets_default,
                      .plan = packets_plan}),
          common::variant_of<PagedGatherCall>(parse, {.name = "rows",
                                                      .doc = "any strides, row after row",
                                                      .source = embedded_source("ops/kv_cache/kernel_paged.hpp"),
                                                      .kernel = "kiln::ops::paged_gather_kernel",
                                                      .space = rows_space,
                                                      .default_config =
                                                          [](const PagedGatherCall& call, const Target& target) {
                                                            const ops::PagedGatherIteration& it = call.iteration;
                                                            return rows_default(it.width * itemsize_bytes(call.dtype),
                                                                                it.heads, target);
                                                          },
                                                      .plan = rows_plan})};
}

}  // namespace kiln::kv_cache
