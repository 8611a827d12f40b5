#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"
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
  return {std::max(bits - bucket_bits, 0), by_dst ? 1 : 0};
}

constexpr int kCounters = 0, kSorted = 1;                                                    // workspaces
constexpr const char *kCounter = "unsigned int", *kPair = "int2", *kByte = "unsigned char";  // as kernels declare them

/// Clears the counters, counts, scans and places: four short kernels. One program that sorts alone would be slower from
/// some ten thousand pairs on.
void add_sort(const RowsCall& call, LaunchPlan& plan) {
  const ops::RowsIteration& it = call.iteration;
  const ops::RowsOrder order = order_of(call);
  const std::int64_t programs = ceil_div(it.pairs, 32 * kSortWarps);
  plan.workspace_bytes = {ops::kRowCounters * std::int64_t{4}, std::max<std::int64_t>(it.pairs, 1) * std::int64_t{8}};
  const auto add = [&](std::string_view kernel, std::int64_t grid, std::int32_t num_warps) -> KernelLaunch& {
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.kernel = fmt::format("kiln::ops::{}", kernel);
    launch.geometry.grid = {grid, 1, 1};
    launch.geometry.num_warps = num_warps;
    return launch;
  };
  const auto add_pairs = [&](KernelLaunch& launch) {
    launch.template_arguments = {call.index, call.count};
    common::KernelParameters(launch)
        .written_workspace(kCounters, kCounter)
        .read(tensor_of(call, kIndices), call.index)
        .read(tensor_of(call, kCounts), call.count)
        .value(it)
        .value(order);
  };
  const auto add_single = [&](std::string_view kernel, std::int64_t constant) {
    KernelLaunch& launch = add(kernel, 1, 32);
    launch.template_arguments = {constant};
    common::KernelParameters(launch).written_workspace(kCounters, kCounter);
  };
  add_single("clear_row_counters_kernel", ops::kRowCounters);
  add_pairs(add("count_rows_kernel", programs, kSortWarps));
  add_single("scan_row_counters_kernel", ops::kRowBuckets);
  KernelLaunch& place = add("place_rows_kernel", programs, kSortWarps);
  common::KernelParameters(place).written_workspace(kSorted, kPair);
  add_pairs(place);
}

LaunchPlan warps_plan(const RowsCall& call, const Config& config, const Target& target) {
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
  common::KernelParameters parameters(launch);
  parameters.written(tensor_of(call, kDst), kByte).read(tensor_of(call, kSrc), kByte);
  if (is_sorted)
    parameters.read_workspace(kSorted, kPair).written_workspace(kCounters, kCounter);
  else
    parameters.read(tensor_of(call, kIndices), call.index).read(tensor_of(call, kCounts), call.count);
  parameters.written(tensor_of(call, kSlotMap), call.slot).value(it);
  add_rows_check(call, target, plan);
  return plan;
}

bool counts_in_32_bits(const RowsCall& call) {
  const ops::RowsIteration& it = call.iteration;
  return it.pairs <= kMostPairs && it.src_rows <= kMostRows && it.dst_rows <= kMostRows && it.row_bytes < kMostRowBytes;
}

}  // namespace

Variant warps_variant(const RowsParser& parse) {
  return common::variant_of<RowsCall>(
      parse,
      {.name = "warps",
       .doc = "groups of lanes that cover a line each, with several rows on their way; pairs sorted where it pays",
       .source = embedded_source("ops/kv_cache/kernel_rows.cuh"),
       .kernel = "kiln::ops::copy_listed_rows_kernel",
       .serves = [](const RowsCall& call, const Target& target) { return is_cuda(target) && counts_in_32_bits(call); },
       .space = [](const Target&) { return warps_space(); },
       .default_config = [](const RowsCall& call, const Target&) { return warps_default(call); },
       .plan = warps_plan});
}

}  // namespace kiln::kv_cache
