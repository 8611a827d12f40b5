#include "ops/reduction/default_config.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/reduction/tiling.hpp"

namespace kiln::reduction {
namespace {

/// On a GPU: tiles in flight, and most of them; warps of a program; rows of a tile; bytes of a row that a program of
/// its own reads while another starts (an H200 starts 1.65 a nanosecond).
constexpr std::int64_t kInFlight = 4, kMostInFlight = 8, kMostWarps = 8, kMostRows = 512, kLeastRowBytes = 2560;
/// Elements of columns that a thread takes in one go (H200: sums of 4 rows of 300,000 f32 24.9 -> 6.7 us, the largest
/// of 3 of a million bf16 87 -> 8.3).
constexpr std::int64_t kMostUnrolled = 8;
/// The same of a column where there are so many of them (sums of 10 rows of 2,613,030 f16 89 -> 26 us, of 32 of a
/// million bf16 64 -> 26; of 12 of 131,072 they would take 7.5 instead of 6.5, of 48 of 600,000 29 instead of 25).
constexpr std::int64_t kMostOfShort = 32, kManyShort = 1 << 18;
/// Fewer columns, by programs of 32, do not occupy an H200.
constexpr std::int64_t kFewColumns = 8192;
/// Up to here rows of 8-byte elements are over before the code of several to a thread has been read: the largest of 100
/// of 100 i64 8.1 -> 4.9 us (H200).
constexpr std::int64_t kFewWide = 1 << 15, kMostWideRow = 1024;
/// Of a warp in a step.
constexpr std::int64_t kMostStepElements = 2048;
/// Programs that an H200 has room for of those that reduce columns, two on each of its 132 processors.
constexpr std::int64_t kPlaces = 264, kFewestPrograms = 256;
/// Of the states that a program of a CPU keeps in memory.
constexpr std::int64_t kMostSpanElements = 16384;

}  // namespace

ConfigSpace config_space(const Target& target) {
  const common::ConfigExpression rows("BLOCK_M"), columns("BLOCK_N"), warps("num_warps"), span("SPAN");
  const common::ConfigExpression tile = rows * columns;
  if (!is_cuda(target))
    return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64}},
             {"BLOCK_N", {128, 64, 256, 512, 1024, 32, 16, 8, 4, 2, 1}},
             {"UNROLL", {1, 2, 4, 8}},
             {"SPAN", {1, 256, 64, 16}},
             {"PROGRAMS", {256, 64, 1024}}},
            {tile <= 1024, tile >= kLeastCpuTile, common::either(span == 1, rows == 1),
             span * columns <= kMostSpanElements}};
  return {{{"BLOCK_M", {1, 8, 4, 2, 16, 32, 64, 128, 256, 512}},
           {"BLOCK_N", {1024, 2048, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 4096, 8192}},
           {"UNROLL", {4, 2, 1, 8, 3, 5, 6, 7}},
           {"PROGRAMS", {4096, 512, 768, 1024, 2048, 8192, 384, 256}},
           {"FOLD", {0, 1}},
           {"num_warps", {8, 4, 2, 16, 1}}},
          {tile >= 32 * warps, tile <= 1024 * warps, tile * "UNROLL" <= kMostStepElements * warps}};
}

namespace {

/// Rows on a GPU: long ones a program's, four tiles of one access a thread in flight; shorter ones in one go, each
/// within a warp, which then needs no shared memory to join its lanes.
void tile_rows(const CollapsedReduction& collapsed, std::int64_t itemsize, std::size_t state_parts, bool has_neutral,
               Config& config) {
  // Eight lanes' worth of state in a thread is as much as leaves registers for other threads.
  const bool dense = collapsed.has_dense_columns();
  const std::int64_t width = std::min<std::int64_t>(kAccessBytes / itemsize, dense ? 8 : 4);
  const std::int64_t reduced = std::max<std::int64_t>(collapsed.reduced[0].extent, 1), kept = collapsed.kept[0].extent;
  const std::int64_t warp_row = 32 * width, longest = kMostWarps * warp_row * kInFlight;
  std::int64_t block_m = 1, block_n = 1, unroll = kInFlight, num_warps = kMostWarps, programs = 4096;
  const bool is_wide = dense && moves_packets(collapsed, 2, itemsize);  // rows side by side in 16-byte accesses
  if (itemsize == 8 && collapsed.kept_total * collapsed.reduced_total <= kFewWide && reduced <= kMostWideRow) {
    block_n = std::max<std::int64_t>(ceil_power_of_two(reduced), 32);
    unroll = 1;
    num_warps = std::min<std::int64_t>(block_n / 32, 4);
  } else if (reduced >= longest || collapsed.kept_total < kMostWarps) {
    // Joining states of several numbers takes long beside a row of 16-bit elements: programs of fewer warps have less
    // to join, and others run meanwhile (16384^2 bf16 on an H200: argmax 3.2 -> 3.9 TB/s).
    if (state_parts > 1 && itemsize <= 2 && collapsed.kept_total >= 1024) num_warps = 2;
    block_n = num_warps * warp_row;
  } else if (dense && !is_wide && reduced * itemsize >= kLeastRowBytes) {
    // Rows that start at any address: a program of one finds the boundary, several would go element by element.
    const std::int64_t places = reduced + width - 1;
    num_warps = std::min(kMostWarps, ceil_power_of_two(ceil_div(places, kMostInFlight * warp_row)));
    block_n = num_warps * warp_row;
    unroll = std::min(kMostInFlight, ceil_div(places, block_n));
  } else {
    const std::int64_t access = is_wide || !dense ? width : 1;
    // Eight accesses to a row's tile, or a sector of single ones, but of up to four elements a thread's own.
    const std::int64_t least =
        access > 1 ? 8 * access : std::max<std::int64_t>(32 / std::max<std::int64_t>(itemsize, 2), 1);
    if (access == 1 && reduced <= 4) {
      unroll = reduced;
    } else {
      block_n = std::min(std::max(least, ceil_power_of_two(ceil_div(reduced, kMostInFlight))), 32 * access);
      const std::int64_t tiles = ceil_div(reduced, block_n);
      unroll = ceil_div(tiles, ceil_div(tiles, kMostInFlight));
    }
    const std::int64_t values = (itemsize <= 2 ? 32 : 16) / (state_parts > 1 ? 2 : 1);
    const std::int64_t steps = floor_power_of_two(values / (unroll * access));
    const std::int64_t rows = ceil_power_of_two(kept);
    while (num_warps > 1 && 32 * num_warps * access / block_n * steps > std::min(rows, kMostRows)) num_warps /= 2;
    block_m = std::max<std::int64_t>(1, std::min({32 * num_warps * access / block_n * steps, rows, kMostRows}));
    // Few rows wait for their code and for memory, each thread for all that it asks for: little of both for each.
    while (block_m * block_n > 32 * num_warps * access && ceil_div(collapsed.kept_total, block_m) < kPlaces)
      block_m /= 2;
  }
  if (collapsed.reduced_total < longest) programs = kFewestPrograms;  // a row is no more than a program reads
  // Without an element to stand for what is not there, tiles at both ends are taken alone.
  if (!has_neutral && reduced < longest) unroll = std::max<std::int64_t>(1, std::min<std::int64_t>(unroll - 1, 3));
  while (num_warps > 1 && block_m * block_n < 32 * num_warps) num_warps /= 2;
  block_m = std::max(block_m, 32 / block_n);
  config.set("BLOCK_M", block_m);
  config.set("BLOCK_N", block_n);
  config.set("UNROLL", unroll);
  config.set("PROGRAMS", programs);
  config.set("num_warps", num_warps);
}

/// Rows of a tile and tiles of a step over `reduced` rows: steps of four tiles of `most` rows where there are many,
/// else so that few steps and few tiles behind them, which come one by one, go through them.
std::pair<std::int64_t, std::int64_t> tall_tiles(std::int64_t reduced, std::int64_t most) {
  if (reduced >= 16 * kInFlight * most) return {most, kInFlight};
  std::pair best{std::int64_t{1}, std::int64_t{1}};
  double lowest_cost = std::numeric_limits<double>::max();
  for (std::int64_t rows = most; rows >= std::max<std::int64_t>(1, most / 8); rows /= 2)
    for (std::int64_t tiles = 1; tiles <= kMostInFlight && tiles * rows <= kInFlight * most; ++tiles) {
      const std::int64_t steps = reduced / (rows * tiles), left = reduced - steps * rows * tiles;
      // Waits for memory; what is masked costs instructions, too.
      const double cost = static_cast<double>(steps + ceil_div(left, rows)) +
                          2 * static_cast<double>(left) / static_cast<double>(reduced);
      if (cost < lowest_cost) {
        best = {rows, tiles};
        lowest_cost = cost;
      }
    }
  return best;
}

/// Columns of a few elements, or of somewhat more where they are enough for threads of their own to occupy the GPU.
bool has_short_columns(const CollapsedReduction& collapsed) {
  if (collapsed.reduced.size() != 1) return false;
  const std::int64_t extent = collapsed.reduced[0].extent;
  return extent <= kMostUnrolled || (extent <= kMostOfShort && collapsed.kept_total >= kManyShort);
}

/// Such columns on a GPU: a thread's own, read in one go, or by four. Where they are few, a thread's own element, and
/// more programs (H200: mean of 3 of 5000 bf16 5.8 -> 4.9 us, the largest of 8 of 32x8 i64 7.7 -> 4.6).
void tile_short_columns(const CollapsedReduction& collapsed, std::int64_t itemsize, Config& config) {
  if (collapsed.kept_total <= kFewColumns && collapsed.reduced[0].extent > 1) {
    const std::int64_t rows = ceil_power_of_two(collapsed.reduced[0].extent);  // of few columns kMostUnrolled at most
    config.set("BLOCK_M", rows);
    config.set("BLOCK_N", 32);
    config.set("num_warps", std::min<std::int64_t>(rows, 4));
    return;
  }
  const std::int64_t most = itemsize == 8 ? 256 : 512;
  const std::int64_t block_n = std::clamp<std::int64_t>(ceil_power_of_two(collapsed.kept[0].extent), 32, most);
  config.set("BLOCK_M", 1);
  config.set("BLOCK_N", block_n);
  const std::int64_t extent = std::max<std::int64_t>(collapsed.reduced[0].extent, 1);
  config.set("UNROLL", extent <= kMostUnrolled ? extent : kInFlight);
  config.set("PROGRAMS", kFewestPrograms);
  config.set("num_warps", std::clamp<std::int64_t>(block_n / 128, 1, 4));
}

/// Columns on a GPU: tiles that are narrow and tall, the whole height where there are kept elements enough: nothing is
/// left to join, and what programs side by side read makes whole pages of memory (16384^2 on an H200: 0.97 and more of
/// a plain read, where tiles of 256 to 512 columns in chunks reach 0.90 to 0.95).
void tile_columns(const CollapsedReduction& collapsed, std::int64_t itemsize, std::size_t state_parts, Config& config) {
  const std::int64_t widest = std::max<std::int64_t>(64, 128 / itemsize);
  const std::int64_t fold = config.at("FOLD") != 0 ? fold_of(collapsed, widest, itemsize) : 1;
  const CollapsedReduction folded = folded_by(collapsed, fold);
  const std::int64_t reduced = std::max<std::int64_t>(folded.reduced[0].extent, 1), kept = folded.kept[0].extent;
  const std::int64_t width = moves_packets(folded, 1, itemsize) ? kAccessBytes / itemsize : 1;
  const std::int64_t elements = kMostWarps * 32 * 16 / (itemsize == 8 ? 2 : 1) / (state_parts > 1 ? 2 : 1);
  const std::int64_t block_n = std::min(ceil_power_of_two(kept), widest);
  const auto [block_m, unroll] = tall_tiles(reduced, std::min(elements / block_n, kMostRows));
  // An access of each thread to a tile, and at most as many elements in a step as a config may have.
  const std::int64_t num_warps =
      std::clamp<std::int64_t>(std::max(floor_power_of_two(block_m * block_n / (32 * width)),
                                        ceil_power_of_two(ceil_div(block_m * block_n * unroll, kMostStepElements))),
                               1, kMostWarps);
  std::int64_t columns = block_n;
  if (block_m * columns < 32) columns = 32 / block_m;
  // As many programs as leave processors idle for the least time, of two that each has room for.
  const std::int64_t blocks = kept_programs(folded, columns);
  std::int64_t programs = kFewestPrograms;
  double best = 0;
  for (const std::int64_t wanted : {256, 384, 512, 768, 1024}) {
    const std::int64_t total = blocks * ceil_div(wanted, std::max<std::int64_t>(blocks, 1));
    const double busy = static_cast<double>(total) / static_cast<double>(ceil_div(total, kPlaces) * kPlaces);
    if (busy > best + 0.05) {
      best = busy;
      programs = wanted;
    }
  }
  config.set("BLOCK_M", block_m);
  config.set("BLOCK_N", columns);
  config.set("UNROLL", unroll);
  config.set("PROGRAMS", programs);
  config.set("num_warps", num_warps);
}

}  // namespace

Config cuda_config(const CollapsedReduction& collapsed, std::int64_t itemsize, std::size_t state_parts,
                   bool finds_index) {
  Config config{{"BLOCK_M", 1}, {"BLOCK_N", 1}, {"UNROLL", 1}, {"PROGRAMS", 256}, {"FOLD", 0}, {"num_warps", 1}};
  if (collapsed.reduces_rows()) {
    tile_rows(collapsed, itemsize, state_parts, state_parts < 3, config);
  } else if (has_short_columns(collapsed)) {
    tile_short_columns(collapsed, itemsize, config);
  } else {
    // States of folded rows are for a second kernel to join.
    tile_columns(collapsed, itemsize, state_parts, config);
    if (!finds_index && !is_short(collapsed, config)) {
      config.set("FOLD", 1);
      tile_columns(collapsed, itemsize, state_parts, config);
    }
  }
  return config;
}

}  // namespace kiln::reduction
