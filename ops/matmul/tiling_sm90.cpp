#include "ops/matmul/tiling_sm90.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/machine.hpp"

namespace kiln::matmul {
namespace {

using common::both;
using common::choose;
using common::ConfigExpression;
using common::either;

/// Math groups that share the rows of a tile.
ConfigExpression sharing_groups() {
  return choose(ConfigExpression("TILE_EACH") == 0, "MATH_GROUPS", 1);
}
/// Blocks of 64 rows of a math group.
ConfigExpression row_blocks() {
  return ConfigExpression("BLOCK_M") / sharing_groups() / 64;
}
ConfigExpression accumulator_words() {
  return row_blocks() * "BLOCK_N" / 2;
}
/// Words of accumulator to a thread; ptxas spills beyond.
std::int64_t most_accumulator_words(Sm90Form form) {
  return form == Sm90Form::with_addend ? 96 : 128;
}

using Tile = ops::MatmulSm90Tiling;

/// What a config says, as the kernel takes it.
Tile tile_of(const Config& config) {
  const auto value = [&](std::string_view name) { return static_cast<int>(config.at(name)); };
  return {.block_m = value("BLOCK_M"),
          .block_n = value("BLOCK_N"),
          .stages = value("NUM_STAGES"),
          .cluster_m = value("CLUSTER_M"),
          .cluster_n = value("CLUSTER_N"),
          .split_k = value("SPLIT_K"),
          .math_groups = value("MATH_GROUPS"),
          .tile_each = value("TILE_EACH") != 0,
          .resident = value("RESIDENT"),
          .shares = value("K_SHARE") > 0};
}

Config config_of(const Tile& tile) {
  const auto& [block_m, block_n, stages, cluster_m, cluster_n, split_k, math_groups, tile_each, resident, shares] =
      tile;
  return {{"BLOCK_M", block_m},
          {"BLOCK_N", block_n},
          {"NUM_STAGES", stages},
          {"CLUSTER_M", cluster_m},
          {"CLUSTER_N", cluster_n},
          {"SPLIT_K", split_k},
          {"MATH_GROUPS", math_groups},
          {"TILE_EACH", tile_each ? 1 : 0},
          {"RESIDENT", resident},
          {"K_SHARE", shares ? 4 : 0},
          {"EXCHANGE", 0},
          {"GROUP_M", 8}};
}

/// What the memory takes to move the operands and the output once.
double memory_clocks(const Sm90Call& call, std::int64_t out_bytes) {
  constexpr double kBytesPerClock = 2300;
  return static_cast<double>(call.batches) *
         (static_cast<double>((call.m + call.n) * call.k * itemsize_bytes(call.a.dtype)) +
          static_cast<double>(call.m * call.n * out_bytes)) /
         kBytesPerClock;
}

/// Clocks of an H200 for one call: what its tiles multiply and bring in, dealt out over the processors, but no less
/// than the memory takes. The constants are fitted to measurements of bf16; other types move as many bytes in as many
/// clocks.
double clocks(const Sm90Call& call, const Tile& tile, std::int64_t out_bytes, std::int64_t processors) {
  constexpr double kStart = 3000;             // until the first block of k is there, and the end
  constexpr double kL2BytesPerClock = 46;     // of one processor
  constexpr double kStoreBytesPerClock = 80;  // of one processor
  constexpr double kCluster = 250;
  constexpr double kAddendsPerClock = 110;      // of one processor
  constexpr double kShortRows = 2.1;            // rows of 64 bytes take as long as rows of 128
  constexpr std::int64_t kClustersOfFour = 31;  // at once: the GPU's parts have no multiples of 4 processors
  constexpr double kThrottledClocks = 1.5e6;    // of multiplying: it then runs at the power's limit
  constexpr double kThrottling = 1.17;          // of the processors' clock; the L2's stays
  constexpr double kExchange = 1700;            // of partial sums between two blocks
  const std::int64_t blocks = tile.cluster_blocks();
  const auto clusters_of = [&](std::int64_t extent, std::int64_t block, std::int64_t cluster) {
    return ceil_div(ceil_div(extent, block), cluster);
  };
  const std::int64_t tiles = clusters_of(call.m, tile.block_m, tile.cluster_m) *
                             clusters_of(call.n, tile.block_n, tile.cluster_n) * call.batches;
  const std::int64_t clusters = std::max<std::int64_t>(processors / blocks, 1);
  const double rounds =
      static_cast<double>(ceil_div(tiles, blocks == 4 ? std::min(clusters, kClustersOfFour) : clusters));
  const double k_blocks = static_cast<double>(ceil_div(sm90_k_blocks(call), tile.split_k));

  // Shared memory gives 128 bytes a clock, and each 64 rows of a meet all of b.
  const auto as_double = [](std::int64_t x) { return static_cast<double>(x); };
  const double products = as_double(tile.block_m * tile.block_n) / 32;
  const double reading = as_double(tile.block_m) / 64 * as_double(64 + tile.block_n) * (tile.block_n < 128 ? 1.9 : 1.0);
  const bool is_throttled =
      as_double(call.m * call.n * call.batches) / 32 / as_double(processors) * as_double(sm90_k_blocks(call)) >
      kThrottledClocks;
  const std::int64_t a_rows = tile.block_m / tile.cluster_n, a_size = itemsize_bytes(call.a.dtype);
  const bool has_short_rows =
      call.a.is_mn && a_size * ops::matmul_sm90_panel(static_cast<int>(a_size), static_cast<int>(a_rows)) < 128;
  const double loading =
      (as_double(a_rows) * (has_short_rows ? kShortRows : 1) + as_double(tile.block_n) / as_double(tile.cluster_m)) *
      128 / (kL2BytesPerClock * (is_throttled ? kThrottling : 1));
  const double adding = call.adds_row ? as_double(tile.block_m * tile.block_n) / kAddendsPerClock : 0;
  const double storing = 600 + as_double(tile.block_m * tile.block_n * out_bytes) / kStoreBytesPerClock + adding;
  double multiplying = k_blocks * std::max({products, reading, loading}) * 1.04;
  // An operand in registers is read while another group's product runs, if there is one.
  if (tile.tile_each && call.a.is_mn && itemsize_bytes(call.a.dtype) != 2) multiplying *= 1.15;
  double total =
      tile.tile_each ? rounds * std::max(multiplying, 0.8 * storing) + storing : rounds * (multiplying + storing);
  if (tile.split_k > 1) total += kExchange * std::sqrt(static_cast<double>(tile.split_k - 1));
  if (tile.cluster_m * tile.cluster_n > 1) total += kCluster;
  return kStart + std::max(total, memory_clocks(call, out_bytes));
}

bool is_off_lines(const Sm90Operand& operand) {
  return operand.pitch * itemsize_bytes(operand.dtype) % ops::MatmulSm90Places::kRowBytes != 0;
}

// The first of several that take as long is taken.
constexpr Tile kWideTiles[] = {
    {128, 256, 4, 2, 1, 1, 2, false, 1, false}, {128, 128, 6, 2, 1, 1, 2, true, 1, false},
    {256, 128, 4, 2, 1, 1, 2, false, 1, false}, {128, 192, 4, 1, 2, 1, 2, false, 1, false},
    {128, 128, 6, 2, 1, 1, 2, false, 1, false}, {64, 128, 8, 2, 1, 1, 1, false, 1, false},
    {128, 64, 8, 1, 1, 1, 2, false, 1, false},  {128, 64, 8, 1, 2, 1, 2, false, 1, false},
    {64, 128, 8, 1, 1, 1, 1, false, 1, false},  {128, 64, 8, 1, 1, 2, 2, false, 1, false},
    {64, 64, 8, 1, 1, 1, 1, false, 1, false},   {64, 64, 8, 1, 1, 2, 1, false, 1, false},
    {64, 64, 8, 1, 1, 4, 1, false, 1, false},
};
constexpr Tile kNarrowTiles[] = {
    {64, 16, 10, 1, 1, 2, 1, false, 1, false}, {128, 16, 9, 1, 1, 2, 2, false, 1, false},
    {64, 16, 10, 1, 1, 1, 1, false, 1, false}, {128, 32, 9, 1, 1, 2, 2, false, 1, false},
    {64, 32, 10, 1, 1, 2, 1, false, 1, false}, {64, 32, 10, 1, 1, 1, 1, false, 1, false},
    {128, 32, 9, 1, 1, 4, 2, false, 1, false},
};

}  // namespace

ConfigSpace sm90_space(Sm90Form form) {
  const bool narrow = form == Sm90Form::narrow;
  const std::int64_t most_words = most_accumulator_words(form);
  const std::vector<std::int64_t> one = {1}, one_or_two = {1, 2};
  std::vector<Tunable> tunables = {
      {"BLOCK_M", narrow ? std::vector<std::int64_t>{128, 64} : std::vector<std::int64_t>{128, 256, 64}},
      {"BLOCK_N", narrow ? std::vector<std::int64_t>{16, 32}
                         : std::vector<std::int64_t>{256, 128, 64, 192, 96, 160, 224, 80, 112, 48}},
      {"NUM_STAGES", narrow ? std::vector<std::int64_t>{10, 8, 9, 12, 15} : std::vector<std::int64_t>{4, 3, 5, 6, 8}},
      {"CLUSTER_M", narrow ? one : one_or_two},
      {"CLUSTER_N", narrow ? one : one_or_two},
      {"SPLIT_K", {1, 2, 4}},
      {"MATH_GROUPS", {2, 1}},
      {"TILE_EACH", {0, 1}},
      {"RESIDENT", {1, 2}},
      {"K_SHARE", {0, 4, 16}},
      {"EXCHANGE", narrow ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>{0, 1}},
      {"GROUP_M", {8, 16}}};
  const ConfigExpression shared_bytes("bytes of shared memory", [](const Config& config) -> std::int64_t {
    const Tile tile = tile_of(config);
    Tile whole = tile;
    whole.split_k = 1;  // see sm90_division
    return std::max(ops::MatmulSm90Places{tile, true}.bytes(), ops::MatmulSm90Places{whole, true}.bytes());
  });
  const ConfigExpression block_m("BLOCK_M"), block_n("BLOCK_N"), split_k("SPLIT_K"), cluster_m("CLUSTER_M"),
      cluster_n("CLUSTER_N"), resident("RESIDENT"), threads = 128 * (1 + ConfigExpression("MATH_GROUPS"));
  const ConfigExpression cluster_blocks = cluster_m * cluster_n;
  // Parts of k of one tile: a cluster of its own, one row block to a math group, and 8 columns for each block to store.
  const Constraint is_splittable = both(both(both(cluster_blocks == 1, row_blocks() == 1), resident == 1),
                                        both(block_n <= 64, block_n % (8 * split_k) == 0));
  // A block has a kilobyte of its own beside, and a thread 44 registers.
  const Constraint fit_together = both(resident * (shared_bytes + 1024) <= kSm90SharedBytes + 1024,
                                       resident * threads * (accumulator_words() + 44) <= 65536);
  return {
      std::move(tunables),
      {block_m % (64 * sharing_groups()) == 0, accumulator_words() <= most_words,
       either(ConfigExpression("TILE_EACH") == 0, both(ConfigExpression("MATH_GROUPS") == 2, split_k == 1)),
       either(split_k == 1, both(is_splittable, ConfigExpression("K_SHARE") == 0)), cluster_blocks <= 2,
       // A cluster's blocks ask for what they share in parts of 64.
       either(cluster_m == 1, block_n % (64 * cluster_m) == 0), either(cluster_n == 1, block_m % (64 * cluster_n) == 0),
       shared_bytes <= kSm90SharedBytes, either(resident == 1, fit_together)}};
}

Config default_sm90_tiling(const Sm90Call& call, std::int64_t out_bytes, std::int64_t processors) {
  const Sm90Form form = call.form;
  const auto consider = [&](const auto& tiles) {
    const ConfigExpression words = accumulator_words();
    const Tile* best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Tile& tile : tiles) {
      if (words(config_of(tile)) > most_accumulator_words(form)) continue;
      const double estimate = clocks(call, tile, out_bytes, processors);
      if (estimate < least) {
        least = estimate;
        best = &tile;
      }
    }
    Tile chosen = *best;
    // Rows that start off the L2's lines take two of them each. Where the L2 is what is waited for, to have more of
    // them asked for at once than the products need makes the first ones late.
    constexpr int kStagesOffLines = 6;
    if (form != Sm90Form::narrow && (is_off_lines(call.a) || is_off_lines(call.b)) &&
        least > 2 * memory_clocks(call, out_bytes))
      chosen.stages = std::min(chosen.stages, kStagesOffLines);
    return config_of(chosen);
  };
  return form == Sm90Form::narrow ? consider(kNarrowTiles) : consider(kWideTiles);
}

Sm90Call sm90_oriented(const Sm90Call& call, const Config& config) {
  if (config.at("EXCHANGE") == 0 || call.form == Sm90Form::narrow) return call;
  return call.a.is_mn && itemsize_bytes(call.a.dtype) != 2 ? call : exchanged(call);
}

std::int64_t Sm90Division::scratch_bytes() const {
  return (num_shares + tiles - whole_tiles) * tiling.cluster_blocks() * tiling.block_m * tiling.block_n * 4;
}

Sm90Division sm90_division(const Sm90Call& call, const Config& config, std::int64_t processors, bool may_split) {
  Sm90Division division;
  division.tiling = tile_of(config);
  ops::MatmulSm90Tiling& tiling = division.tiling;
  const std::int64_t k_blocks = sm90_k_blocks(call);
  tiling.split_k =
      may_split ? static_cast<int>(std::min<std::int64_t>(tiling.split_k, floor_power_of_two(k_blocks))) : 1;
  division.rows = ceil_div(ceil_div(call.m, tiling.block_m), tiling.cluster_m);
  division.columns = ceil_div(ceil_div(call.n, tiling.block_n), tiling.cluster_n);
  division.tiles = division.whole_tiles = division.rows * division.columns * call.batches;
  const std::int64_t clusters = std::max<std::int64_t>(processors * tiling.resident / tiling.cluster_blocks(), 1);
  // Parts of k that meet in a cluster have no ring to go on with: each cluster has one tile.
  division.clusters = tiling.split_k > 1 ? division.tiles : std::min(division.tiles, clusters);

  const std::int64_t shared_tiles = division.tiles % clusters, blocks = shared_tiles * k_blocks;
  const std::int64_t share = std::max(ceil_div(blocks, clusters), config.at("K_SHARE"));
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;  // the kernel counts them in 32 bits
  tiling.shares = may_split && tiling.shares && shared_tiles > 0 && share < k_blocks && blocks <= kMostBlocks;
  if (tiling.shares) {
    division.whole_tiles -= shared_tiles;
    division.share = share;
    division.num_shares = ceil_div(blocks, share);
    division.clusters = division.whole_tiles > 0 ? clusters : division.num_shares;
  }
  return division;
}

std::int64_t sm90_k_blocks(const Sm90Call& call) {
  return ceil_div(call.k * itemsize_bytes(call.a.dtype), ops::MatmulSm90Places::kRowBytes);
}

}  // namespace kiln::matmul
