#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/grid.hpp"
#include "ops/kv_cache/append_call.hpp"
#include "ops/kv_cache/paged_check.hpp"
#include "ops/kv_cache/paged_launch.hpp"
#include "ops/kv_cache/paged_tiling.hpp"

namespace kiln::kv_cache {
namespace {

std::int64_t itemsize_of(const OpCall& call) {
  return itemsize_bytes(call.inputs[0].dtype);
}

bool is_dense(const ops::PagedAppendIteration& it) {
  return std::all_of(it.caches, it.caches + 2,
                     [](const ops::PagedCache& cache) { return cache.element_stride == 1; }) &&
         it.strides[0][3] == 1 && it.strides[1][3] == 1;
}

ops::PagedAppendIteration in_bytes(ops::PagedAppendIteration it, std::int64_t itemsize) {
  for (ops::PagedCache& cache : it.caches)
    for (long long* stride : {&cache.block_stride, &cache.place_stride, &cache.head_stride}) *stride *= itemsize;
  for (auto& strides : it.strides)
    for (long long& stride : strides) stride *= itemsize;
  it.width *= itemsize;
  return it;
}

std::int64_t packet_of(const ops::PagedAppendIteration& bytes, std::int64_t itemsize) {
  std::vector<std::int64_t> multiples = {bytes.width};
  for (const ops::PagedCache& cache : bytes.caches)
    multiples.insert(multiples.end(), {cache.block_stride, cache.place_stride, cache.head_stride});
  for (const auto& strides : bytes.strides) multiples.insert(multiples.end(), strides, strides + 3);
  return packet_bytes(itemsize, multiples);
}

std::string name_of(const AppendCall& append) {
  return append.by_table ? "kv_append_layers" : "kv_append";
}

LaunchPlan plan_of(KernelLaunch launch, const ops::PagedAppendIteration& it, const OpCall& call, const Target& target) {
  for (int tensor = 0; tensor < 5; ++tensor) launch.arguments.add_tensor(tensor);
  launch.arguments.add_value(it);
  LaunchPlan plan;
  plan.launches.push_back(std::move(launch));
  if (call.attributes.get_bool("check_bounds")) add_slot_check(plan, call, target);
  return plan;
}

LaunchPlan packets_plan(const OpCall& call, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_of(call);
  const AppendCall append = append_call(call);
  ops::PagedAppendIteration it = in_bytes(append.iteration, itemsize);
  const std::int64_t packet = packet_of(it, itemsize);
  it.parts = ceil_div(it.tokens * it.heads * it.width / packet, batch_packets(config));
  KernelLaunch launch = paged_launch(name_of(append), 2 * append.layers * it.parts, config, target);
  launch.template_arguments = {packet_type(packet),    unsigned_dtype(itemsize), call.inputs[4].dtype,
                               std::int64_t{it.width}, std::int64_t{it.heads},   std::int64_t{it.caches[0].page},
                               config.at("IN_FLIGHT"), append.by_table};
  launch.vector_width = 1;  // the kernel says itself what a thread moves
  return plan_of(std::move(launch), it, call, target);
}

LaunchPlan rows_plan(const OpCall& call, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_of(call);
  const AppendCall append = append_call(call);
  ops::PagedAppendIteration it = append.iteration;
  it.parts = ceil_div(it.tokens * it.heads, config.at("ROWS"));
  KernelLaunch launch = paged_launch(name_of(append), 2 * append.layers * it.parts, config, target);
  launch.template_arguments = {unsigned_dtype(itemsize),
                               call.inputs[4].dtype,
                               config.at("ROWS"),
                               config.at("BLOCK_BYTES") / itemsize,
                               is_dense(it),
                               append.by_table};
  launch.vector_width = is_dense(it) ? static_cast<std::int32_t>(16 / itemsize) : 1;
  return plan_of(std::move(launch), it, call, target);
}

}  // namespace

std::vector<Variant> append_variants() {
  Variant packets;
  packets.name = "packets";
  packets.doc = "rows whose elements lie together, 16 bytes a thread, any page size";
  packets.source = embedded_source("ops/kv_cache/kernel_paged.cuh");
  packets.kernel = "kiln::ops::paged_append_packets_kernel";
  packets.serves = [](const OpCall& call, const Target& target) {
    const ops::PagedAppendIteration it = append_call(call).iteration;
    return is_cuda(target) && is_dense(it) && counts_in_32_bits(it.tokens * it.heads * it.width) &&
           counts_in_32_bits(it.caches[0].num_blocks * it.caches[0].page);
  };
  packets.space = [](const Target&) { return packets_space(); };
  packets.default_config = [](const OpCall& call, const Target&) {
    const std::int64_t itemsize = itemsize_of(call);
    const std::int64_t packet = packet_of(in_bytes(append_call(call).iteration, itemsize), itemsize);
    return packets_default_for(2 * call.inputs[0].numel() * itemsize / packet);
  };
  packets.plan = packets_plan;

  Variant rows;
  rows.name = "rows";
  rows.doc = "any strides, row after row";
  rows.source = embedded_source("ops/kv_cache/kernel_paged.hpp");
  rows.kernel = "kiln::ops::paged_append_kernel";
  rows.serves = [](const OpCall&, const Target&) { return true; };
  rows.space = rows_space;
  rows.default_config = [](const OpCall& call, const Target& target) {
    return rows_default(append_call(call).iteration.width * itemsize_of(call), 1, target);
  };
  rows.plan = rows_plan;
  return {std::move(packets), std::move(rows)};
}

}  // namespace kiln::kv_cache
