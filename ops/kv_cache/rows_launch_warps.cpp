#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "ops/grid.hpp"
#include "ops/kv_cache/rows_arguments.hpp"
#include "ops/kv_cache/rows_config.hpp"
#include "ops/kv_cache/rows_launch.hpp"

namespace kiln::kv_cache {
namespace {

/// A kernel counts pairs and rows in 32 bits, and bytes of a row too, with room for a lane's place.
constexpr std::int64_t kMostPairs = std::numeric_limits<std::int32_t>::max(), kMostRows = kMostPairs;
constexpr std::int64_t kMostRowBytes = std::int64_t{1} << 29;

/// Threads that sort, a pair each.
constexpr std::int32_t kSortWarps = 8;

/// Buckets of 2^shift rows, of which there are at most kRowBuckets.
ops::RowsOrder order_of(const RowsCall& call) {
  const bool by_dst = call.host == HostSide::dst;
  const auto last =
      static_cast<std::uint64_t>(std::max((by_dst ? call.iteration.dst_rows : call.iteration.src_rows) - 1, 0LL));
  const auto bits = static_cast<int>(std::bit_width(last)), bucket_bits = std::countr_zero(unsigned{ops::kRowBuckets});
  return {std::max(bits - bucket_bits, 0), by_dst};
}

constexpr int kCounters = 0, kSorted = 1;  // workspaces

/// Clears the counters, counts, scans and places: four short kernels. One program that sorts alone would be slower from
/// some ten thousand pairs on.
void add_sort(const RowsCall& call, LaunchPlan& plan) {
  const ops::RowsIteration& it = call.iteration;
  const ops::RowsOrder order = order_of(call);
  const std::int64_t programs = ceil_div(it.pairs, 32 * kSortWarps);
  plan.workspace_bytes = {ops::kRowCounters * std::int64_t{4}, std::max<std::int64_t>(it.pairs, 1) * std::int64_t{8}};
  const auto add = [&](std::string kernel, std::int64_t grid, std::int32_t num_warps) -> KernelLaunch& {
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.kernel = "kiln::ops::" + std::move(kernel);
    launch.geometry.grid = {grid, 1, 1};
    launch.geometry.num_warps = num_warps;
    return launch;
  };
  const auto add_pairs = [&](KernelLaunch& launch) {
    launch.template_arguments = {call.index, call.count};
    launch.arguments.add_workspace(kCounters);
    add_input(launch.arguments, call, kIndices);
    add_input(launch.arguments, call, kCounts);
    launch.arguments.add_value(it);
    launch.arguments.add_value(order);
  };
  const auto add_single = [&](std::string kernel, std::int64_t constant) {
    KernelLaunch& launch = add(std::move(kernel), 1, 32);
    launch.template_arguments = {constant};
    launch.arguments.add_workspace(kCounters);
  };
  add_single("clear_row_counters_kernel", ops::kRowCounters);
  add_pairs(add("count_rows_kernel", programs, kSortWarps));
  add_single("scan_row_counters_kernel", ops::kRowBuckets);
  KernelLaunch& place = add("place_rows_kernel", programs, kSortWarps);
  place.arguments.add_workspace(kSorted);
  add_pairs(place);
}

LaunchPlan warps_plan(std::string_view op, const RowsCall& call, const Config& config, const Target& target) {
  const ops::RowsIteration& it = call.iteration;
  const bool is_sorted = config.at("SORT") != 0;
  LaunchPlan plan;
  if (is_sorted) add_sort(call, plan);
  KernelLaunch& launch = plan.launches.emplace_back();
  const std::int64_t width = packet_width(call), num_warps = config.at("num_warps");
  const std::int64_t groups = std::max<std::int64_t>(32 * width / (16 * config.at("LANES")), 1);
  const std::int64_t batch = groups * config.at("ROWS_IN_FLIGHT");
  std::int64_t blocks = std::min(config.at("SMS"), ceil_div(it.pairs, batch * num_warps));
  if (call.max_sms > 0) blocks = std::min(blocks, call.max_sms);
  const ops::RowAlignment alignment = config.at("ALIGN_LANES") == 0 ? ops::RowAlignment::none
                                      : call.host == HostSide::dst  ? ops::RowAlignment::dst
                                                                    : ops::RowAlignment::src;
  launch.kernel = is_sorted ? "kiln::ops::copy_sorted_rows_kernel" : "kiln::ops::copy_listed_rows_kernel";
  if (!is_sorted) launch.template_arguments = {call.index, call.count};
  launch.template_arguments.emplace_back(call.slot);
  for (const std::int64_t value : {width, config.at("LANES"), config.at("ROWS_IN_FLIGHT"), config.at("PACKETS"),
                                   static_cast<std::int64_t>(alignment)})
    launch.template_arguments.emplace_back(value);
  launch.template_arguments.emplace_back(config.at("LOAD_HINT") != 0);
  launch.geometry.grid = {blocks, 1, 1};
  launch.geometry.num_warps = static_cast<std::int32_t>(num_warps);
  add_input(launch.arguments, call, kDst);
  add_input(launch.arguments, call, kSrc);
  if (is_sorted) {
    launch.arguments.add_workspace(kSorted);
    launch.arguments.add_workspace(kCounters);
  } else {
    add_input(launch.arguments, call, kIndices);
    add_input(launch.arguments, call, kCounts);
  }
  add_input(launch.arguments, call, kSlotMap);
  launch.arguments.add_value(it);
  add_rows_check(op, call, target, plan);
  return plan;
}

}  // namespace

Variant warps_variant(std::string_view name) {
  const std::string op(name);
  Variant variant;
  variant.name = "warps";
  variant.doc = "groups of lanes that cover a line each, with several rows on their way; pairs sorted where it pays";
  variant.source = embedded_source("ops/kv_cache/kernel_rows.cuh");
  variant.kernel = "kiln::ops::copy_listed_rows_kernel";
  variant.serves = [](const OpCall& call, const Target& target) {
    if (!is_cuda(target)) return false;
    const RowsCall rows = rows_call(call);
    const ops::RowsIteration& it = rows.iteration;
    return it.pairs <= kMostPairs && it.src_rows <= kMostRows && it.dst_rows <= kMostRows &&
           it.row_bytes < kMostRowBytes;
  };
  variant.space = [](const Target&) { return warps_space(); };
  variant.default_config = [](const OpCall& call, const Target&) { return warps_default(rows_call(call)); };
  variant.plan = [op](const OpCall& call, const Config& config, const Target& target) {
    return warps_plan(op, rows_call(call), config, target);
  };
  return variant;
}

}  // namespace kiln::kv_cache
