#include <algorithm>

#include "ops/common/block_choice.hpp"
#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"
#include "ops/reduction/default_config.hpp"

namespace kiln::reduction {
namespace {

/// On a CPU: rows of fewer elements than kTinyRow are taken an element at a time, many at once, and up to kLongRow
/// several rows at once: few vectors of a row would hide little of what additions wait for each other, and more of
/// several parts of a state. Rows from memory follow one another from kShortRow on, for memory is fetched ahead for one
/// row and not for eight that are read side by side (argmax of 40,000 rows of 135: 3.0 -> 2.0 ms).
constexpr std::int64_t kTinyRow = 4, kNarrowRow = 32, kShortRow = 128, kLongRow = 512;
constexpr std::int64_t kShortBlock = 8;
/// Of a row from memory that is taken by itself.
constexpr std::int64_t kLeastRowAloneBytes = 256;
/// Fewer rows over which columns are reduced come in tiles of as many as divide them.
constexpr std::int64_t kManyRows = 64;
/// Of a state's tile.
constexpr std::int64_t kStateBytes = 256, kNarrowStateBytes = 128;
/// Columns that are kept, of a reduction that reads memory from end to end on a CPU.
constexpr std::int64_t kLeastStreamedColumns = 16, kMostStreamedColumns = 256;
/// Columns that are one tile, with states in registers or nearly so: bytes of a state's number for all of them.
constexpr std::int64_t kMostTileBytes = 2048, kMostWideTileBytes = 1024, kMostNarrowTileBytes = 512;
/// Of whole rows that a program goes along (reduce_span), from so many columns and rows on: elements of a tile, which
/// is two or four vectors and no less than a vector of bytes; tiles; programs.
constexpr std::int64_t kLeastSpannedColumns = 48, kLeastSpannedRows = 16, kLeastNarrowSpannedRows = 64;
constexpr std::int64_t kSpannedTile = 32, kSpan = 256, kSpanPrograms = 64;
/// Of a row and twice its states, which are read and written beside it: what the cache nearest to a core keeps of that
/// from one row to the next (of 32 KB).
constexpr std::int64_t kNearestCacheBytes = 36 * 1024;
/// Of a row, four of which are fetched ahead as one.
constexpr std::int64_t kBriefRowBytes = 256;

}  // namespace

/// Measured on one thread of a Zen 4 and a Zen 5 with vectors of 64 bytes and as CPUs of 32 bytes
/// (docs/performance.md): what counts is that a program's states stay in registers, that little of its tiles is masked,
/// and that memory is read in its order.
Config cpu_config(const CollapsedReduction& collapsed, std::int64_t itemsize, std::int64_t accumulator_bytes,
                  std::size_t state_parts, const Target& target) {
  const std::int64_t reduced = collapsed.reduced[0].extent, kept = collapsed.kept[0].extent;
  const std::int64_t number_bytes = std::max<std::int64_t>(accumulator_bytes, 4);
  const std::int64_t lanes = std::max<std::int64_t>(common::vector_register_bytes(target) / number_bytes, 4);
  const std::int64_t few_rows = state_parts > 1 ? lanes / 2 : kStateBytes / number_bytes / kShortBlock;
  std::int64_t block_m = 1, block_n = 1, unroll = 1, span = 1, programs = 256;
  const bool comes_from_caches =
      common::stays_in_caches(static_cast<double>(collapsed.kept_total * collapsed.reduced_total * itemsize));
  const bool streams_columns = !collapsed.reduces_rows() && !comes_from_caches;
  const std::int64_t state_bytes = static_cast<std::int64_t>(state_parts) * number_bytes;
  const bool is_wide = common::vector_register_bytes(target) >= 64;
  const std::int64_t most_tile_bytes = state_parts == 1 ? kMostTileBytes
                                       : is_wide        ? kMostWideTileBytes
                                                        : kMostNarrowTileBytes;
  const bool is_one_tile = kept == floor_power_of_two(kept) && kept * number_bytes <= most_tile_bytes;
  // States in memory are made and joined, which few elements to each do not pay for.
  const bool has_rows = reduced >= kLeastSpannedRows &&
                        (kept > kMostStreamedColumns || collapsed.reduced_total >= kLeastNarrowSpannedRows);
  if (streams_columns && kept >= kLeastSpannedColumns && has_rows && !is_one_tile) {
    // Rows from end to end, one at a time: then the hardware fetches best ahead, as long as their states stay in the
    // nearest cache. Of longer rows, and of ones that do not follow one another, eight at a time, for each eight of
    // which the states come from the next cache (one thread of a Zen 4, ms, f32, one / eight: argmax of 320 columns 3.4
    // / 8.2, of 10,007 9 to 12 / 4.2; sum of 2000 columns of 2192 6.8 / 3.5).
    block_n = kSpannedTile;
    span = kSpan;
    const bool follows = collapsed.reduced[0].strides[kInput] == kept;
    if (!follows || kept * (2 * state_bytes + itemsize) >= kNearestCacheBytes)
      unroll = 8;
    else if (kept * itemsize <= kBriefRowBytes)
      unroll = 4;
    programs = kSpanPrograms;
  } else if (streams_columns && kept >= kLeastStreamedColumns) {
    // As much of each row as states in registers bear: pieces of many rows leave the hardware little to fetch ahead
    // (one thread of a Zen 4, ms: amax of 50000x100 f32 4.4 in tiles of 2 x 32, 0.8 so, as an AVX2 CPU 4.8 and 1.8; std
    // of 300000x40 6.4 and 2.4).
    const bool fills_up = is_wide && state_parts == 1;
    block_n = is_one_tile
                  ? kept
                  : std::min(fills_up ? ceil_power_of_two(kept) : floor_power_of_two(kept), kMostStreamedColumns);
  } else if (!collapsed.reduces_rows()) {
    // Sixteen vectors of 32 bytes or eight of 64, which are lines of the cache in each row. With AVX2 none of few rows
    // is masked, and places take as many registers again, which it does not have for several rows (one thread of a Zen
    // 3, us: amin of 63x5x392 over 5 rows in tiles of 4 x 32 and 1 x 32 74 and 29; argmax of 5 to 60 rows 1.1 to 2.6
    // times as fast by single rows of 32).
    std::int64_t states = (state_parts == 1 ? 512 : 256) / number_bytes;
    block_n = common::block_over(kept, {.least = kept >= states ? states / 4 : states / 8, .most = states / 2});
    if (block_n > kept) {  // all of it would be masked: two narrow blocks that overlap take a fifth of the time
      block_n = floor_power_of_two(kept);
      states = kNarrowStateBytes / number_bytes;
    }
    block_m = std::min(states / block_n, floor_power_of_two(reduced));
    if (!is_wide && state_parts > 1 && kept >= kNarrowRow) {
      block_n = kNarrowRow;
      block_m = 1;
    } else if (!is_wide && reduced < kManyRows) {
      block_m = std::min(block_m, std::max<std::int64_t>(reduced & -reduced, 1));
    }
  } else if (collapsed.kept_total <= 1) {
    block_n = std::min<std::int64_t>(512 / accumulator_bytes, 128);  // eight vectors hide the latency of additions
    if (state_parts > 1 && common::vector_register_bytes(target) < 64) {
      // Sixteen registers hold a quarter with their places (argmin of 2,400,000 f32: 360 us, and 190 so).
      block_n = kNarrowRow;
      unroll = accumulator_bytes == 8 ? 2 : 1;
    }
  } else if (reduced < kTinyRow) {
    block_m = 4 * lanes;
  } else if (reduced < kShortRow && state_parts == 1 && !comes_from_caches) {
    // Out of memory one row at a time from 256 bytes on, and few before: the hardware fetches ahead for few (two
    // threads of a Zen 4, ms: mean of 246093x64 f64 8.8 in tiles of 4 x 4, 2.2 so; 202608x78 9.9 and 2.4; as an AVX2
    // CPU, one thread, 656250x24 19.6 in tiles of 8 x 4, 6.3 so; f32 of 1312500x24 20.6 in 16 x 4, 4.8 so).
    const bool is_line = reduced * number_bytes >= kLeastRowAloneBytes;
    block_n = is_line ? 128 / number_bytes : kTinyRow;
    block_m = is_line ? 1 : reduced < kNarrowRow ? std::min<std::int64_t>(lanes, 8) : 4;
    unroll = is_line ? 1 : 2;
  } else if (reduced < kNarrowRow) {
    block_n = kTinyRow;
    block_m = kStateBytes / number_bytes / block_n;
  } else if (reduced < kShortRow) {
    block_n = kTinyRow;
    block_m = kStateBytes / number_bytes / (2 * block_n);
    unroll = 2;
  } else if (kept >= few_rows && comes_from_caches) {
    block_n = kShortBlock;
    block_m = few_rows;
  } else if (reduced < kLongRow) {
    block_n = state_parts > 1 ? 2 * lanes : std::max<std::int64_t>(2 * lanes, 32);
  } else {
    block_n = 4 * lanes;
  }
  if (collapsed.reduces_rows() && block_m > kept) {  // tiles of several rows would be mostly masked
    block_m = 1;
    block_n = 2 * lanes;
    unroll = 1;
  }
  if (collapsed.reduces_rows()) block_n = std::min(floor_power_of_two(reduced), block_n);
  block_m = std::max(block_m, kLeastCpuTile / block_n);
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"UNROLL", unroll}, {"SPAN", span}, {"PROGRAMS", programs}};
}

}  // namespace kiln::reduction
