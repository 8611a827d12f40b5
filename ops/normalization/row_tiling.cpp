#include "ops/normalization/row_tiling.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/errors.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"

namespace kiln::normalization {
namespace {

/// Values a thread may hold. A program of 1024 threads has 64 registers for each, of smaller ones twice that.
constexpr std::int64_t kMostPerThread = 64;
constexpr std::int64_t kMostPerThreadOfLargest = 32;
/// Bytes a program should read: less, and launching programs is the limit (docs/performance.md).
constexpr std::int64_t kLeastProgramBytes = 4096;
/// Programs that fill an H200's 132 processors some times over, so that the last ones to finish are a small part.
constexpr std::int64_t kManyPrograms = 1024;
/// Up to so many, two for each processor, a call of short rows waits for its code and not for its data: as little of it
/// as there can be, which is little for each thread.
constexpr std::int64_t kFewPrograms = 264;
constexpr std::int64_t kMostSplit = 64;
/// What a program of 16 warps that shares a row holds at a time, times TILES: 2 to 4% faster than half of it in 8.
constexpr std::int64_t kSplitTile = 4096;
/// A CPU splits a row only where there are fewer rows than this for its cores, and each part is worth a task.
constexpr std::int64_t kManyCpuPrograms = 16;
constexpr std::int64_t kLeastCpuChunk = 16 * 1024;
/// Elements of a row below which a CPU's tiles are short, and those from which on its lanes are as many as its sums
/// need to be exact.
constexpr std::int64_t kShortCpuRow = 256;
constexpr std::int64_t kLongCpuRow = 4096;

/// Bytes of a row that is worth a program of its own. An H200 starts 1.65 programs a nanosecond, in which its memory
/// moves this much in and out.
constexpr std::int64_t kLeastRowBytes = 1280;
/// Elements of a row that a warp holds, in 32 values a thread.
constexpr std::int64_t kLongestShortRow = 1024;
constexpr std::int64_t kMostTiles = 8;
/// Rows that are read twice stay in the L2 between the two where programs of so many bytes together are at work, 48
/// warps to a processor; longer ones have 16 warps each (32 took up to half as long again: log_softmax of bf16
/// 2382x44016 209 us, 145 with 16, layer_norm of 4096x47120 487 and 326).
constexpr std::int64_t kCachedBytes = 32 << 20;
constexpr std::int64_t kWarpsAtWork = 132 * 48;

/// Tiles, at most kMostTiles, that cover `extent`, as (size, number), with as little left over as can be: of at least
/// `least` and, where that many are enough, at most `most`.
std::pair<std::int64_t, std::int64_t> cover(std::int64_t extent, std::int64_t least, std::int64_t most) {
  extent = std::max<std::int64_t>(extent, 1);
  const std::int64_t whole = ceil_power_of_two(extent), least_of_all = std::max<std::int64_t>(whole / kMostTiles, 1);
  const std::int64_t widest = std::min(whole, std::max(most, least_of_all));
  std::pair best{widest, ceil_div(extent, widest)};
  std::int64_t lowest_cost = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t block = widest; block >= std::max(least_of_all, std::min(widest, least)); block /= 2) {
    const std::int64_t tiles = ceil_div(extent, block);
    const std::int64_t cost = tiles * block;
    if (cost < lowest_cost - lowest_cost / 10) {  // for less, the larger tile is the simpler one
      best = {block, tiles};
      lowest_cost = cost;
    }
  }
  return best;
}

/// Whether rows that are off the addresses of wide accesses may be taken one to a program.
bool may_start_anywhere(const RowWalk& walk) {
  return walk.axis == 1 && walk.is_dense && walk.segments() == 1 && !walk.keeps_alignment();
}

/// Places of such a row: the output's first access may begin up to one element less than an access before it.
std::int64_t places_anywhere(const RowWalk& walk) {
  const std::int64_t reduced = walk.reduced[0].extent;
  return reduced > 0 ? reduced + 16 / walk.operands[0].itemsize_bytes - 1 : 0;
}

Config make_config(const RowTiling& tiling, int axis, bool can_split, const Target& target) {
  Config config{{"BLOCK_M", tiling.block_m}, {"BLOCK_N", tiling.block_n}, {"TILES", tiling.tiles}};
  if (can_split) config.set("SPLIT", tiling.split);
  if (is_cuda(target) && axis == 1) config.set("ANYWHERE", tiling.starts_anywhere ? 1 : 0);
  if (is_cuda(target)) config.set("num_warps", tiling.num_warps);
  return config;
}

/// Warps whose threads hold `per_thread` values of the tiles or somewhat more, and `width` of each tile, but no more
/// than fit.
std::int32_t warps_for(const RowTiling& tiling, std::int64_t per_thread, std::int64_t width) {
  const std::int64_t tile = tiling.block_m * tiling.block_n, held = tile * tiling.tiles;
  // Up to a third more of them than that, for want of a power of two in between.
  const std::int64_t wanted = floor_power_of_two(std::min(held * 4 / 3 / (32 * per_thread), tile / (32 * width)));
  const std::int64_t least = ceil_power_of_two(ceil_div(held, 32 * kMostPerThread));
  return static_cast<std::int32_t>(std::min<std::int64_t>(std::max(wanted, least), 32));
}

/// Rows up to kLongestShortRow, each within a warp, which needs no shared memory to join its lanes; several to a
/// program, but where they start anywhere.
RowTiling short_row_tiling(const RowWalk& walk, const RowTiling& start, std::int64_t element_bytes,
                           std::int64_t per_thread) {
  RowTiling tiling = start;
  const std::int64_t width = vector_width(walk, tiling, element_bytes);
  const bool is_few = walk.kept[0].extent * walk.outer_rows() <= kFewPrograms * 4;
  // Eight wide accesses to a row's tile, or a sector of single ones.
  const std::int64_t least = is_few ? 32 * width : width > 1 ? 8 * width : 32 / element_bytes;
  std::tie(tiling.block_n, tiling.tiles) = cover(tiling.places(walk), least, 32 * width);
  const bool fits_lanes = tiling.block_n <= 32 * width;
  if (!fits_lanes) std::tie(tiling.block_n, tiling.tiles) = cover(tiling.places(walk), 32, kLongestShortRow);
  tiling.num_warps = fits_lanes && !tiling.starts_anywhere ? 4 : 1;
  if (!tiling.starts_anywhere) {
    const std::int64_t rows = per_thread * 32 * tiling.num_warps / (tiling.block_n * tiling.tiles);
    tiling.block_m = std::min({floor_power_of_two(rows), ceil_power_of_two(walk.kept[0].extent), kLongestShortRow});
    while (tiling.block_m > 1 && tiling.programs(walk) < kFewPrograms &&
           tiling.block_m * tiling.block_n > 32 * tiling.num_warps * width)
      tiling.block_m /= 2;
  }
  const std::int64_t tile = tiling.block_m * tiling.block_n;
  while (tiling.num_warps > 1 && tile < 32 * tiling.num_warps * width &&
         tile * tiling.tiles <= 16 * tiling.num_warps * kMostPerThread)
    tiling.num_warps /= 2;
  while (tiling.block_m * tiling.block_n < 32) tiling.block_m *= 2;
  return tiling;
}

/// A few rows that are more than a warp's: a program has one, in one tile, and a thread one access or two. Each warp
/// its own row, eight accesses to a thread, was a wait for code, as were tiles that cover a row with less left over
/// (H200: layer_norm f32 16x1024 9.7 -> 5.3 us, rms_norm 2000x1024 12.7 -> 8.9, bf16 16x7168 8.2 -> 5.9). What is left
/// over counts where rows are more (layer_norm f32 2000x1480 12.5, so 13.8).
std::optional<RowTiling> few_row_tiling(const RowWalk& walk, const RowTiling& start, std::int64_t element_bytes) {
  constexpr std::int64_t kLongestFewRow = 8 * kLongestShortRow;
  const std::int64_t width = vector_width(walk, start, element_bytes), places = start.places(walk);
  if (start.starts_anywhere || places <= 32 * width || places > kLongestFewRow) return std::nullopt;
  const std::int64_t block = ceil_power_of_two(places);
  const bool is_long = block > 2 * kLongestShortRow, is_full = 4 * places >= 3 * block;
  if (walk.kept[0].extent * walk.outer_rows() > kFewPrograms * (is_long ? 1 : is_full ? 8 : 4)) return std::nullopt;
  RowTiling tiling = start;
  tiling.block_n = block;
  tiling.num_warps = static_cast<std::int32_t>(std::min<std::int64_t>(block / (32 * width), is_long ? 16 : 8));
  return tiling;
}

/// Rows that registers do not hold.
RowTiling looped_tiling(const RowWalk& walk, const RowTiling& start, const RowNeeds& needs) {
  RowTiling tiling = start;
  std::int64_t& block_kept = walk.axis == 1 ? tiling.block_m : tiling.block_n;
  std::int64_t& block_reduced = walk.axis == 1 ? tiling.block_n : tiling.block_m;
  const std::int64_t width = 16 / needs.element_bytes, kept = walk.kept[0].extent, places = tiling.places(walk);
  const bool is_split = needs.can_split && walk.axis == 1 && !needs.is_double && walk.segments() == 1 &&
                        2 * tiling.programs(walk) <= kManyPrograms;
  tiling.num_warps = is_split ? 16 : 8;
  if (walk.axis == 1 && !is_split)
    if (kWarpsAtWork / tiling.num_warps * places * needs.element_bytes > kCachedBytes) tiling.num_warps = 16;
  tiling.tiles = std::min<std::int64_t>(4, 32 / width);  // converting many narrow values takes long to compile
  const std::int64_t tile = is_split ? kSplitTile : 32 * tiling.num_warps * width;
  if (walk.axis == 1)
    block_reduced = std::min(ceil_power_of_two(places), tile);
  else
    block_reduced = std::max<std::int64_t>(1, tile / block_kept);
  while (block_kept * block_reduced < tile && block_kept < kept) block_kept *= 2;
  while (tiling.block_m * tiling.block_n < 32) block_kept *= 2;
  while (tiling.num_warps > 1 && tiling.block_m * tiling.block_n < 32 * tiling.num_warps) tiling.num_warps /= 2;
  if (needs.can_split) {
    const std::int64_t steps = ceil_div(places, tiling.tiles * block_reduced);
    const std::int64_t wanted = kManyPrograms / std::max<std::int64_t>(tiling.programs(walk), 1);
    tiling.split = std::clamp<std::int64_t>(floor_power_of_two(std::min(wanted, steps / 4)), 1, kMostSplit);
  }
  return tiling;
}

RowTiling cuda_default(const RowWalk& walk, const RowNeeds& needs) {
  const std::int64_t element_bytes = needs.element_bytes;
  const std::int64_t reduced = std::max<std::int64_t>(walk.reduced[0].extent, 1), kept = walk.kept[0].extent;
  const std::int64_t capacity = needs.is_double ? 8192 : 32768;
  RowTiling tiling;
  std::int64_t& block_kept = walk.axis == 1 ? tiling.block_m : tiling.block_n;
  std::int64_t& block_reduced = walk.axis == 1 ? tiling.block_n : tiling.block_m;
  // To put weights together out of what they straddle costs narrow types more than single accesses.
  tiling.starts_anywhere = may_start_anywhere(walk) && !needs.has_shared && reduced * element_bytes >= kLeastRowBytes;
  if (walk.axis == 1 && walk.segments() == 1 && !needs.is_double)
    if (const std::optional<RowTiling> few = few_row_tiling(walk, tiling, element_bytes)) return *few;
  if (walk.axis == 1 && walk.segments() == 1 && tiling.places(walk) <= kLongestShortRow / (needs.is_double ? 2 : 1))
    return short_row_tiling(walk, tiling, element_bytes, needs.per_thread);
  // Columns that are kept: a cache line of them at least.
  if (walk.axis == 0) block_kept = std::min(ceil_power_of_two(kept), 128 / element_bytes);
  const auto [block, tiles] = cover(tiling.places(walk), walk.axis == 1 ? 32 : 1, capacity);
  if (walk.segments() > 1 || block * tiles * block_kept > capacity) return looped_tiling(walk, tiling, needs);
  block_reduced = block;
  tiling.tiles = tiles;
  while (!tiling.starts_anywhere && block_kept < kept && block_kept < 1024 && tiling.programs(walk) > kFewPrograms &&
         tiling.block_m * tiling.block_n * tiles * element_bytes < kLeastProgramBytes)
    block_kept *= 2;
  while (tiling.block_m * tiling.block_n < 32) block_kept *= 2;
  const std::int64_t held = tiling.block_m * tiling.block_n * tiles;
  std::int64_t per_thread = held > 8192 && !needs.is_double ? 32 : needs.per_thread;
  if (needs.can_pack && held > 8192) {
    // A program of 1024 threads would have the processor to itself, which then either loads or stores; of half as
    // many with packed values there are two, and so on (bf16 2048x14336 58 us, so 38). In one tile rather than four
    // the kernel needs a few registers too many.
    per_thread = 64;
    if (tiles == 1) {
      tiling.tiles = 4;
      block_reduced /= 4;
    }
  }
  tiling.num_warps = warps_for(tiling, per_thread, vector_width(walk, tiling, element_bytes));
  return tiling;
}

/// Tiles along rows that are short: none of them is masked where a small one divides the row, and several rows fill a
/// register between them. Nothing where rows are too long for that to be better than vectors of one row.
std::optional<RowTiling> short_cpu_tiling(std::int64_t row, const RowNeeds& needs, bool is_wide) {
  const std::int64_t divisor = std::gcd(row, std::int64_t{8});
  if (divisor == 8 && row < (needs.can_split ? kShortCpuRow : 64)) return RowTiling{.block_m = 4, .block_n = 8};
  if (divisor == 4 && row < (is_wide && !needs.can_split ? 16 : 32)) return RowTiling{.block_m = 2, .block_n = 4};
  if (divisor == 2 && row < 16) return RowTiling{.block_m = 4, .block_n = 2};
  if (divisor == 1 && row < 12) return RowTiling{.block_m = 4, .block_n = 1};
  return std::nullopt;
}

RowTiling cpu_default(const RowWalk& walk, const RowNeeds& needs, const Target& target) {
  RowTiling tiling;
  const std::int64_t columns = walk.axis == 1 ? walk.reduced[0].extent : walk.kept[0].extent;
  tiling.block_n = std::min<std::int64_t>(ceil_power_of_two(columns), needs.is_double ? 64 : 128);
  const std::int64_t reduced = walk.reduced[0].extent, kept = ceil_power_of_two(walk.kept[0].extent);
  if (walk.axis == 1 && reduced < 2 * kLongCpuRow) {
    // A row's last tile is masked, and exponentials of what is not there cost as much as those of what is; one vector
    // or two of them stay in registers. Norms, which cost little beside the memory, compensate their sums below 32.
    const bool is_wide = common::vector_register_bytes(target) >= 64;
    if (const auto short_tiling = short_cpu_tiling(reduced, needs, is_wide)) {
      tiling = *short_tiling;
    } else if (!needs.can_split) {
      tiling.block_n = reduced < kLongCpuRow ? 32 : 64;
      tiling.block_m = is_wide && reduced >= kShortCpuRow ? 2 : 1;
    } else if (reduced < kShortCpuRow) {
      tiling.block_n = reduced < kShortCpuRow / 2 ? 4 : 8;
      tiling.block_m = tiling.block_n / 2;
    } else if (reduced < kLongCpuRow) {
      tiling.block_n = 16;
    }
    tiling.block_m = std::min(tiling.block_m, kept);
  }
  if (needs.can_split && tiling.programs(walk) < kManyCpuPrograms && reduced >= 4 * kLeastCpuChunk) {
    tiling.split = reduced >= kManyCpuPrograms * kLeastCpuChunk ? 16 : 4;
    tiling.tiles = 4;
  }
  return tiling;
}

}  // namespace

ops::RowColumns RowTiling::columns(const RowWalk& walk, const Target& target) const {
  if (!walk.is_dense) return ops::kStridedColumns;
  if (is_anywhere(walk)) return ops::kDenseAnywhere;
  const std::int64_t held = block_reduced(walk) * std::max<std::int64_t>(tiles_of_a_row(walk), 1);
  const bool is_whole = walk.keeps_alignment() && walk.kept[0].extent % block_kept(walk) == 0 &&
                        walk.reduced[0].extent > 0 && walk.reduced[0].extent % held == 0;
  return is_cuda(target) && is_whole && tiles_of_a_row(walk) > 0 ? ops::kDenseWhole : ops::kDenseColumns;
}

bool RowTiling::is_anywhere(const RowWalk& walk) const {
  return starts_anywhere && block_m == 1 && may_start_anywhere(walk);
}

std::int64_t RowTiling::places(const RowWalk& walk) const {
  return is_anywhere(walk) ? places_anywhere(walk) : walk.reduced[0].extent;
}

std::int64_t RowTiling::tiles_of_a_row(const RowWalk& walk) const {
  const std::int64_t needed = ceil_div(places(walk), block_reduced(walk));
  return walk.segments() == 1 && needed <= tiles ? needed : 0;
}

std::int64_t RowTiling::programs(const RowWalk& walk) const {
  return ceil_div(walk.kept[0].extent, block_kept(walk)) * walk.outer_rows();
}

ConfigSpace row_space(int axis, const Target& target, bool can_split) {
  const common::ConfigExpression tile = common::ConfigExpression("BLOCK_M") * "BLOCK_N", warps("num_warps");
  std::vector<Tunable> tunables;
  if (!is_cuda(target)) {
    tunables = {{"BLOCK_M", {1, 2, 4}}, {"BLOCK_N", {64, 128, 32, 256, 16, 8, 4, 2, 1}}, {"TILES", {1, 2, 4}}};
    if (can_split) tunables.push_back({"SPLIT", {1, 4, 16}});
    return {tunables, {tile <= 256}};
  }
  const std::vector<std::int64_t> kept = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  const std::vector<std::int64_t> reduced = {1024, 2048, 4096, 8192, 16384, 32768, 512, 256,
                                             128,  64,   32,   16,   8,     4,     2,   1};
  tunables = {{"BLOCK_M", axis == 1 ? kept : reduced},
              {"BLOCK_N", axis == 1 ? reduced : kept},
              {"TILES", {1, 2, 3, 4, 5, 6, 7, 8}}};
  if (can_split) tunables.push_back({"SPLIT", {1, 2, 4, 8, 16, 32, 64}});
  if (axis == 1) tunables.push_back({"ANYWHERE", {0, 1}});
  tunables.push_back({"num_warps", {8, 4, 16, 32, 2, 1}});
  const common::ConfigExpression most =
      common::choose(warps == 32, 32 * kMostPerThreadOfLargest, 32 * kMostPerThread) * warps;
  std::vector<Constraint> constraints = {tile >= 32 * warps, tile * "TILES" <= most};
  if (axis == 1) constraints.push_back(common::ConfigExpression("ANYWHERE") * "BLOCK_M" <= 1);
  return {tunables, std::move(constraints)};
}

RowTiling tiling_of(const Config& config) {
  RowTiling tiling{config.at("BLOCK_M"), config.at("BLOCK_N"), config.at("TILES")};
  if (const std::int64_t* split = config.find("SPLIT")) tiling.split = *split;
  if (const std::int64_t* anywhere = config.find("ANYWHERE")) tiling.starts_anywhere = *anywhere != 0;
  if (const std::int64_t* num_warps = config.find("num_warps"))
    tiling.num_warps = static_cast<std::int32_t>(*num_warps);
  return tiling;
}

Config default_tiling(const RowWalk& walk, const RowNeeds& needs, const Target& target) {
  const RowTiling tiling = is_cuda(target) ? cuda_default(walk, needs) : cpu_default(walk, needs, target);
  return make_config(tiling, walk.axis, needs.can_split, target);
}

std::int32_t vector_width(const RowWalk& walk, const RowTiling& tiling, std::int64_t element_bytes) {
  return walk.keeps_alignment() || tiling.is_anywhere(walk) ? static_cast<std::int32_t>(16 / element_bytes) : 1;
}

}  // namespace kiln::normalization
