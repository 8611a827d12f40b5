#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/common/grid_launch.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/kv_cache/append_call.hpp"
#include "ops/kv_cache/paged_check.hpp"
#include "ops/kv_cache/paged_launch.hpp"
#include "ops/kv_cache/paged_tiling.hpp"

namespace kiln::kv_cache {
namespace {

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

/// `moved`: what the kernel moves. Caches that are given by address are tables of addresses.
LaunchPlan plan_of(KernelLaunch launch, const AppendCall& append, const ops::PagedAppendIteration& it,
                   const common::ElementType& moved, const Target& target) {
  common::KernelParameters parameters(launch);
  parameters.read(0, moved).read(1, moved);
  for (const int cache : {2, 3})
    if (append.by_table)
      parameters.read(cache, DType::i64);
    else
      parameters.written(cache, moved);
  parameters.read(4, append.slots).value(it);
  LaunchPlan plan;
  plan.launches.push_back(std::move(launch));
  add_slot_check(plan, append, target);
  return plan;
}

LaunchPlan packets_plan(const AppendCall& append, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_bytes(append.dtype);
  ops::PagedAppendIteration it = in_bytes(append.iteration, itemsize);
  const std::int64_t packet = packet_of(it, itemsize);
  it.parts = ceil_div(it.tokens * it.heads * it.width / packet, batch_packets(config));
  KernelLaunch launch = common::grid_launch(append.op(), 2 * append.layers * it.parts, config, target);
  launch.template_arguments = {packet_type(packet),    unsigned_dtype(itemsize), append.slots,
                               std::int64_t{it.width}, std::int64_t{it.heads},   std::int64_t{it.caches[0].page},
                               config.at("IN_FLIGHT"), append.by_table};
  launch.vector_width = 1;  // the kernel says itself what a thread moves
  return plan_of(std::move(launch), append, it, "char", target);
}

LaunchPlan rows_plan(const AppendCall& append, const Config& config, const Target& target) {
  const std::int64_t itemsize = itemsize_bytes(append.dtype);
  const DType moved = unsigned_dtype(itemsize);
  ops::PagedAppendIteration it = append.iteration;
  it.parts = ceil_div(it.tokens * it.heads, config.at("ROWS"));
  KernelLaunch launch = common::grid_launch(append.op(), 2 * append.layers * it.parts, config, target);
  launch.template_arguments = {moved,        append.slots,   config.at("ROWS"), config.at("BLOCK_BYTES") / itemsize,
                               is_dense(it), append.by_table};
  launch.vector_width = is_dense(it) ? static_cast<std::int32_t>(16 / itemsize) : 1;
  return plan_of(std::move(launch), append, it, moved, target);
}

bool serves_packets(const AppendCall& append, const Target& target) {
  const ops::PagedAppendIteration& it = append.iteration;
  return is_cuda(target) && is_dense(it) && counts_in_32_bits(it.tokens * it.heads * it.width) &&
         counts_in_32_bits(it.caches[0].num_blocks * it.caches[0].page);
}

}  // namespace

std::vector<Variant> append_variants() {
  const AppendParser parse(append_call);
  return {common::variant_of<AppendCall>(
              parse, {.name = "packets",
                      .doc = "rows whose elements lie together, 16 bytes a thread, any page size",
                      .source = embedded_source("ops/kv_cache/kernel_paged.cuh"),
                      .kernel = "kiln::ops::paged_append_packets_kernel",
                      .serves = serves_packets,
                      .space = [](const Target&) { return packets_space(); },
                      .default_config =
                          [](const AppendCall& append, const Target&) {
                            const std::int64_t itemsize = itemsize_bytes(append.dtype);
                            const std::int64_t packet = packet_of(in_bytes(append.iteration, itemsize), itemsize);
                            return packets_default_for(2 * append.elements * itemsize / packet);
                          },
                      .plan = packets_plan}),
          common::variant_of<AppendCall>(
              parse, {.name = "rows",
                      .doc = "any strides, row after row",
                      .source = embedded_source("ops/kv_cache/kernel_paged.hpp"),
                      .kernel = "kiln::ops::paged_append_kernel",
                      .space = rows_space,
                      .default_config =
                          [](const AppendCall& append, const Target& target) {
                            return rows_default(append.iteration.width * itemsize_bytes(append.dtype), 1, target);
                          },
                      .plan = rows_plan})};
}

}  // namespace kiln::kv_cache
