#include "ops/reduction/tiling.hpp"

#include <algorithm>

#include "ops/common/block_choice.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"

namespace kiln::reduction {
namespace {

/// A program of a split reduction reads at least this much, so that starting it and joining its state cost little.
constexpr std::int64_t kLeastCudaChunkBytes = 16 * 1024;
constexpr std::int64_t kLeastCpuChunkBytes = 128 * 1024;
/// A lane of a CPU program adds up to twice this many elements before lanes are joined, however few the lanes are:
/// roundings of equal elements all go one way, and grow with their number.
constexpr std::int64_t kLaneElements = 2048;
/// Positions inside a chunk are 32 bits wide.
constexpr std::int64_t kMostChunkElements = std::int64_t{1} << 30;
/// On a CPU: rows of fewer elements than kTinyRow are taken an element at a time, many at once, and up to kLongRow
/// several rows at once: few vectors of a row would hide little of what additions wait for each other, and more of
/// several parts of a state. From kVeryLongRow on little is gained by short tiles.
constexpr std::int64_t kTinyRow = 4;
constexpr std::int64_t kLongRow = 256;
constexpr std::int64_t kVeryLongRow = 8192;
constexpr std::int64_t kShortBlock = 8;
/// Elements of the smallest tile.
constexpr std::int64_t kLeastCpuTile = 16;

}  // namespace

Split split_of(const CollapsedReduction& collapsed, const Config& config, std::int64_t itemsize, const Target& target) {
  const std::int64_t extent = collapsed.reduced[0].extent;
  const std::int64_t outer = extent == 0 ? 1 : collapsed.reduced_total / extent;
  const std::int64_t step = config.at("UNROLL") * config.at(collapsed.reduces_rows() ? "BLOCK_N" : "BLOCK_M");
  Split split{1, std::max<std::int64_t>(extent, 1), 1, outer};
  if (extent == 0) return split;

  // What one program reads per reduced element is the width of its block of kept ones.
  const std::int64_t block = config.at(collapsed.reduces_rows() ? "BLOCK_M" : "BLOCK_N");
  const std::int64_t programs = std::max<std::int64_t>(kept_programs(collapsed, block), 1);
  const std::int64_t width_bytes = std::clamp<std::int64_t>(collapsed.kept[0].extent, 1, block) * itemsize;
  std::int64_t least = ceil_div(is_cuda(target) ? kLeastCudaChunkBytes : kLeastCpuChunkBytes, width_bytes);
  if (!is_cuda(target) && collapsed.reduces_rows()) least = std::min(least, kLaneElements * config.at("BLOCK_N"));
  std::int64_t wanted = std::min(ceil_div(config.at("PROGRAMS"), programs), collapsed.reduced_total / least);
  wanted = std::clamp<std::int64_t>(wanted, 1, kMostGridExtent);

  split.outer_per_group = ceil_div(outer, std::min(outer, wanted));
  if (outer > 1)
    split.outer_per_group = std::clamp<std::int64_t>(kMostChunkElements / extent, 1, split.outer_per_group);
  split.groups = ceil_div(outer, split.outer_per_group);
  const std::int64_t pieces = std::max(wanted / split.groups, ceil_div(extent, kMostChunkElements));
  split.piece_extent = ceil_div(ceil_div(extent, pieces), step) * step;
  split.pieces = ceil_div(extent, split.piece_extent);
  return split;
}

std::int64_t kept_programs(const CollapsedReduction& collapsed, std::int64_t kept_block) {
  const std::int64_t extent = collapsed.kept[0].extent;
  return extent == 0 ? 0 : ceil_div(extent, kept_block) * (collapsed.kept_total / extent);
}

bool moves_packets(const CollapsedReduction& collapsed, std::int64_t block_m, std::int64_t itemsize) {
  const auto is_multiple = [width = kAccessBytes / itemsize](const CollapsedDim& dim) {
    return dim.strides[kInput] % width == 0;
  };
  if (!collapsed.has_dense_columns()) return false;
  if (collapsed.reduces_rows()) return block_m == 1 || is_multiple(collapsed.kept[0]);
  return std::all_of(collapsed.kept.begin() + 1, collapsed.kept.end(), is_multiple) &&
         std::all_of(collapsed.reduced.begin(), collapsed.reduced.end(), is_multiple);
}

ConfigSpace config_space(const Target& target) {
  const common::ConfigExpression tile = common::ConfigExpression("BLOCK_M") * "BLOCK_N", warps("num_warps");
  if (!is_cuda(target))
    return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64}},
             {"BLOCK_N", {128, 64, 256, 512, 1024, 32, 16, 8, 4, 2, 1}},
             {"UNROLL", {1, 2, 4}},
             {"PROGRAMS", {256, 64, 1024}}},
            {tile <= 1024, tile >= kLeastCpuTile}};
  return {{{"BLOCK_M", {1, 8, 4, 2, 16, 32, 64, 128, 256, 512}},
           {"BLOCK_N", {1024, 2048, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 4096, 8192}},
           {"UNROLL", {4, 2, 1, 8}},
           {"PROGRAMS", {4096, 512, 768, 1024, 2048, 8192, 384, 256}},
           {"num_warps", {8, 4, 2, 16, 1}}},
          {tile >= 32 * warps, tile <= 1024 * warps, tile * "UNROLL" <= 2048 * warps}};
}

/// One access per thread and tile, four tiles in flight: few accumulators, much memory under way. Rows are one
/// program's when they are long, one warp's when they are short, which then needs no shared memory to join its lanes.
Config cuda_config(const CollapsedReduction& collapsed, std::int64_t itemsize, std::size_t state_parts) {
  // Eight lanes' worth of state in a thread is as much as leaves registers for other threads.
  const std::int64_t width = std::min<std::int64_t>(kAccessBytes / itemsize, collapsed.has_dense_columns() ? 8 : 4);
  const std::int64_t reduced = collapsed.reduced[0].extent, kept = collapsed.kept[0].extent;
  std::int64_t num_warps = 8, unroll = 4, block_m = 1, block_n = 1, programs = 4096;
  if (collapsed.reduces_rows()) {
    const std::int64_t warp_row = 32 * width;
    if (reduced >= num_warps * warp_row * unroll || collapsed.kept_total < 8) {
      // Joining states of several numbers takes long beside a row of 16-bit elements: programs of fewer warps have less
      // to join, and others run meanwhile (16384^2 bf16 on an H200: argmax 3.2 -> 3.9 TB/s).
      if (state_parts > 1 && itemsize <= 2 && collapsed.kept_total >= 1024) num_warps = 2;
      block_n = num_warps * warp_row;
    } else if (!moves_packets(collapsed, num_warps, itemsize) && collapsed.has_dense_columns() &&
               reduced >= warp_row * 2) {
      // Rows that start at any address: a program of one finds the boundary, several would go element by element.
      num_warps = 1;
      block_n = warp_row;
      while (block_n * unroll > reduced) unroll /= 2;
    } else {
      block_n = std::min(floor_power_of_two(reduced), warp_row);
      while (unroll > 1 && block_n * unroll > reduced) unroll /= 2;
      block_m = std::min(num_warps * warp_row / block_n, ceil_power_of_two(kept));
    }
  } else {
    // Narrow and tall, the whole height where there are kept elements enough: nothing is left to join, and what
    // programs side by side read makes whole pages of memory (16384^2 on an H200: 0.97 and more of a plain read, where
    // tiles of 256 to 512 columns in chunks reach 0.90 to 0.95).
    const std::int64_t elements = num_warps * 32 * 16 / (itemsize == 8 ? 2 : 1) / (state_parts > 1 ? 2 : 1);
    block_n = std::min(ceil_power_of_two(kept), std::max<std::int64_t>(64, 128 / itemsize));
    block_m = std::min(elements / block_n, floor_power_of_two(reduced));
    while (unroll > 1 && block_m * unroll > reduced) unroll /= 2;
    programs = 256;
  }
  block_m = std::min<std::int64_t>(block_m, 512);
  while (num_warps > 1 && block_m * block_n < 32 * num_warps) num_warps /= 2;
  if (block_m * block_n < 32)
    (collapsed.reduces_rows() ? block_m : block_n) = 32 / (collapsed.reduces_rows() ? block_n : block_m);
  return {
      {"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"UNROLL", unroll}, {"PROGRAMS", programs}, {"num_warps", num_warps}};
}

/// Measured on one thread of a Zen 5 with its vectors of 64 bytes and as a CPU of 32 bytes (docs/performance.md): what
/// counts is that a program's states stay in registers, and that little of its tiles is masked.
Config cpu_config(const CollapsedReduction& collapsed, std::int64_t accumulator_bytes, std::size_t state_parts,
                  const Target& target) {
  const std::int64_t reduced = collapsed.reduced[0].extent, kept = collapsed.kept[0].extent;
  const std::int64_t lanes =
      std::max<std::int64_t>(common::vector_register_bytes(target) / std::max<std::int64_t>(accumulator_bytes, 4), 4);
  std::int64_t block_m = 1, block_n = 1, unroll = 1;
  if (!collapsed.reduces_rows()) {
    // Sixteen vectors of 32 bytes or eight of 64, which are lines of the cache in each row.
    const std::int64_t states = (state_parts == 1 ? 512 : 256) / std::max<std::int64_t>(accumulator_bytes, 4);
    block_n = common::block_over(kept, {.least = kept >= states ? states / 4 : states / 8, .most = states / 2});
    block_m = std::min(states / block_n, floor_power_of_two(reduced));
  } else if (collapsed.kept_total <= 1) {
    block_n = std::min<std::int64_t>(512 / accumulator_bytes, 128);  // eight vectors hide the latency of additions
  } else if (reduced < kTinyRow) {
    block_m = 4 * lanes;
  } else if (reduced < (state_parts > 1 ? kLongRow : kLongRow / 4)) {
    block_m = 2 * lanes;
    block_n = kTinyRow;
    if (state_parts == 1 && (reduced >= kLongRow / 8 || reduced % (2 * kTinyRow) == 0)) unroll = 2;
  } else if (reduced < (state_parts > 1 ? 4 * kLongRow : kLongRow)) {
    block_m = lanes / 2;
    block_n = kShortBlock;
  } else if (state_parts > 1 && reduced < kVeryLongRow) {
    block_m = lanes / 4;
    block_n = 2 * kShortBlock;
  } else {
    block_n = (reduced < kVeryLongRow ? 2 : 4) * lanes;
    block_m = lanes >= 16 ? 2 : 1;
  }
  if (collapsed.reduces_rows() && block_m > kept) {  // tiles of several rows would be mostly masked
    block_m = 1;
    block_n = 2 * lanes;
    unroll = 1;
  }
  if (collapsed.reduces_rows()) block_n = std::min(floor_power_of_two(reduced), block_n);
  block_m = std::max(block_m, kLeastCpuTile / block_n);
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"UNROLL", unroll}, {"PROGRAMS", 256}};
}

}  // namespace kiln::reduction
