#include "ops/matmul/tiling_sm90.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/iteration_sm90.hpp"
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
/// Of these each further row block takes as many for itself: with a whole addend, 8-bit numbers along m and two blocks
/// of 96 columns ptxas spilled.
std::int64_t words_of_row_block(Sm90Form form) {
  return form == Sm90Form::with_addend ? 8 : 0;
}

/// Of blocks that share operands; parts of k may be more, see most_parts_of_k.
constexpr int kMostClusterBlocks = 8;

/// Columns of a tile that a block stores which has a part of k: they fit in one buffer, of 4 bytes too.
constexpr int kMostColumnsOfPart = 32;

}  // namespace

ConfigSpace sm90_space(Sm90Form form) {
  const bool narrow = form == Sm90Form::narrow;
  const std::int64_t most_words = most_accumulator_words(form);
  const std::vector<std::int64_t> one = {1}, one_or_two = {1, 2}, cluster = {1, 2, 4};
  std::vector<Tunable> tunables = {
      {"BLOCK_M", narrow ? std::vector<std::int64_t>{128, 64} : std::vector<std::int64_t>{128, 256, 64}},
      {"BLOCK_N", narrow ? std::vector<std::int64_t>{16, 32}
                         : std::vector<std::int64_t>{256, 128, 64, 192, 96, 160, 224, 80, 112, 48}},
      {"NUM_STAGES",
       narrow ? std::vector<std::int64_t>{10, 8, 9, 12, 15} : std::vector<std::int64_t>{4, 3, 5, 6, 8, 12}},
      {"CLUSTER_M", narrow ? one : cluster},
      {"CLUSTER_N", narrow ? one : cluster},
      {"SPLIT_K", {1, 2, 4, 8, 16}},
      {"MATH_GROUPS", {2, 1}},
      {"TILE_EACH", {0, 1}},
      // A whole addend takes registers that two blocks do not have.
      {"RESIDENT", form == Sm90Form::with_addend ? one : one_or_two},
      {"K_SHARE", {0, 4, 16, kNoShare}},
      {"EXCHANGE", form == Sm90Form::wide ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{0}},
      {"GROUP_M", {8, 16}}};
  const ConfigExpression shared_bytes("bytes of shared memory", [](const Config& config) -> std::int64_t {
    const ops::MatmulSm90Tiling tile = sm90_choice(config).tiling;
    ops::MatmulSm90Tiling whole = tile;
    whole.split_k = 1;  // see sm90_division
    return std::max(ops::MatmulSm90Places{tile, true}.bytes(), ops::MatmulSm90Places{whole, true}.bytes());
  });
  const ConfigExpression block_m("BLOCK_M"), block_n("BLOCK_N"), split_k("SPLIT_K"), cluster_m("CLUSTER_M"),
      cluster_n("CLUSTER_N"), k_share("K_SHARE"), resident("RESIDENT"),
      threads = 128 * (1 + ConfigExpression("MATH_GROUPS"));
  const ConfigExpression cluster_blocks = cluster_m * cluster_n;
  const ConfigExpression columns("columns of an owner",
                                 [](const Config& config) { return sm90_choice(config).tiling.columns(); });
  // Parts of k of one tile: a cluster of its own, and one row block to a math group. Behind gelu or a whole addend
  // tiles of 128 x 128 and of 64 x 256 spilled.
  const Constraint is_splittable =
      both(both(both(cluster_blocks == 1, row_blocks() == 1), both(resident == 1, block_m * block_n <= 128 * 96)),
           both(block_n <= 128, columns <= kMostColumnsOfPart));
  // A block has a kilobyte of its own beside, and a thread 44 registers, and 32 more for each further row block; two
  // more where groups take tiles of their own and load 8-bit numbers of an operand that lies along m. Of more than 72
  // sums (64x160) products of f16 with an addend of f32 spill.
  const Constraint fit_together = both(
      both(resident * (shared_bytes + 1024) <= kSm90SharedBytes + 1024, accumulator_words() <= 72),
      resident * threads * (accumulator_words() + 32 * row_blocks() + 12 + 2 * ConfigExpression("TILE_EACH")) <= 65536);
  return {std::move(tunables),
          {block_m % (64 * sharing_groups()) == 0,
           accumulator_words() + words_of_row_block(form) * (row_blocks() + -1) <= most_words,
           either(ConfigExpression("TILE_EACH") == 0, both(ConfigExpression("MATH_GROUPS") == 2, split_k == 1)),
           either(split_k == 1, both(is_splittable, k_share == 0)),
           // No tuner looks for these: one of each kernel is enough.
           either(k_share <= kNoShare + -1, both(resident == 1, ConfigExpression("GROUP_M") == 8)),
           cluster_blocks <= kMostClusterBlocks,
           // What bands and least shares change is little: one of each is enough for larger clusters.
           either(cluster_m * cluster_n <= 2,
                  both(ConfigExpression("GROUP_M") == 8, either(k_share <= 4, k_share == kNoShare))),
           // A cluster's blocks ask for what they share in parts of whole swizzle groups.
           block_n % (8 * cluster_m) == 0, block_m % (8 * cluster_n) == 0, shared_bytes <= kSm90SharedBytes,
           either(resident == 1, fit_together)}};
}

Sm90Choice sm90_choice(const Config& config) {
  const auto value = [&](std::string_view name) { return static_cast<int>(config.at(name)); };
  return {.tiling = {.block_m = value("BLOCK_M"),
                     .block_n = value("BLOCK_N"),
                     .stages = value("NUM_STAGES"),
                     .cluster_m = value("CLUSTER_M"),
                     .cluster_n = value("CLUSTER_N"),
                     .split_k = value("SPLIT_K"),
                     .math_groups = value("MATH_GROUPS"),
                     .tile_each = value("TILE_EACH") != 0,
                     .resident = value("RESIDENT"),
                     .shares = value("K_SHARE") > 0},
          .k_share = value("K_SHARE"),
          .exchanges = value("EXCHANGE") != 0,
          .group_m = value("GROUP_M")};
}

Config sm90_config(const Sm90Choice& choice) {
  const auto& [block_m, block_n, stages, cluster_m, cluster_n, split_k, math_groups, tile_each, resident, shares] =
      choice.tiling;
  return {{"BLOCK_M", block_m},
          {"BLOCK_N", block_n},
          {"NUM_STAGES", stages},
          {"CLUSTER_M", cluster_m},
          {"CLUSTER_N", cluster_n},
          {"SPLIT_K", split_k},
          {"MATH_GROUPS", math_groups},
          {"TILE_EACH", tile_each ? 1 : 0},
          {"RESIDENT", resident},
          {"K_SHARE", shares ? choice.k_share : 0},
          {"EXCHANGE", choice.exchanges ? 1 : 0},
          {"GROUP_M", choice.group_m}};
}

bool fits_registers(const ops::MatmulSm90Tiling& tiling, Sm90Form form) {
  return tiling.row_blocks() * tiling.block_n / 2 + words_of_row_block(form) * (tiling.row_blocks() - 1) <=
             most_accumulator_words(form) &&
         (tiling.resident == 1 || form != Sm90Form::with_addend);
}

Sm90Call sm90_oriented(const Sm90Call& call, const Sm90Choice& choice) {
  if (!choice.exchanges || call.form == Sm90Form::narrow) return call;
  return call.a.is_mn && itemsize_bytes(call.a.dtype) != 2 ? call : exchanged(call);
}

std::int64_t Sm90Division::scratch_bytes() const {
  return (num_shares + tiles - whole_tiles) * tiling.cluster_blocks() * tiling.block_m * tiling.block_n * 4;
}

namespace {

struct Team {
  std::int64_t tiles, band_rows;  ///< see MatmulSm90Iteration
};

std::int64_t operand_bytes(const Sm90Call& call, const Sm90Operand& operand, std::int64_t extent) {
  return (operand.batch_stride != 0 ? call.batches : 1) * extent * call.k * itemsize_bytes(operand.dtype);
}

/// How often memory gives an operand that `times` clusters read, each when it comes to it.
std::int64_t reads_of(std::int64_t bytes, std::int64_t times) {
  constexpr std::int64_t kStaysInL2Bytes = std::int64_t{16} << 20;
  return bytes > kStaysInL2Bytes ? times : 1;
}

/// Clusters that share k of neighbouring tiles at places of their own read from memory, each for itself, what does not
/// stay in the L2. Chooses the tiles whose clusters go along k together: those of a column of the product, or those of
/// a row, by what is read then; else `alone`.
Team team_of(const Sm90Call& call, const Sm90Division& division, std::int64_t clusters, const Team& alone) {
  constexpr double kLeastBusy = 0.85;  // of the clusters
  const std::int64_t a_once = operand_bytes(call, call.a, call.m), b_once = operand_bytes(call, call.b, call.n);
  const std::int64_t a_each = a_once * reads_of(a_once, division.columns),
                     b_each = b_once * reads_of(b_once, division.rows);
  if (a_each == a_once && b_each == b_once) return alone;
  const Team team = a_each + b_once < a_once + b_each ? Team{division.rows, division.rows} : Team{division.columns, 1};
  const std::int64_t busy = clusters / team.tiles * team.tiles;
  return static_cast<double>(busy) < kLeastBusy * static_cast<double>(clusters) ? alone : team;
}

/// Blocks of k for each of `teams` which share those of `tiles`. If few of them are idle then, as many for each tile:
/// all go along k together.
std::int64_t equal_share(std::int64_t tiles, std::int64_t teams, std::int64_t k_blocks, bool in_step) {
  constexpr double kLeastBusy = 0.93;
  const std::int64_t parts = teams / tiles;
  if (in_step && static_cast<double>(parts * tiles) >= kLeastBusy * static_cast<double>(teams))
    return ceil_div(k_blocks, parts);
  return ceil_div(tiles * k_blocks, teams);
}

/// Blocks of the largest cluster of parts of k. A cluster lies in one of the GPU's parts, of which some GPUs have none
/// with sixteen multiprocessors; of more than eight times fifteen at least one has.
int most_parts_of_k(const Sm90Processors& processors) {
  constexpr int kLargestCluster = 16;
  return processors.all > ops::kMatmulSm90Gpcs * (kLargestCluster - 1) ? kLargestCluster : kMostClusterBlocks;
}

/// Clusters that run at a time.
std::int64_t clusters_at_once(const ops::MatmulSm90Tiling& tiling, const Sm90Processors& processors) {
  const std::int64_t blocks = tiling.cluster_blocks();
  return std::max<std::int64_t>((blocks > 2 ? processors.in_clusters : processors.all) * tiling.resident / blocks, 1);
}

}  // namespace

Sm90Division sm90_division(const Sm90Call& call, const Sm90Choice& choice, const Sm90Processors& processors,
                           bool may_split) {
  // Sums of fp8 lose what their 14 bits do not reach at each addition. Parts of k that meet as f32 bound that: two of
  // 65,544 were off by 0.04 of the root of k (H100), beyond what is allowed.
  constexpr std::int64_t kMostBlocksOfFp8 = 256;
  Sm90Division division;
  division.tiling = choice.tiling;
  ops::MatmulSm90Tiling& tiling = division.tiling;
  const std::int64_t k_blocks = sm90_k_blocks(call);
  const bool is_cut = may_split && is_fp8(call.a.dtype) && ceil_div(k_blocks, tiling.split_k) > kMostBlocksOfFp8;
  if (is_cut) tiling.split_k = 1, tiling.shares = true;
  const int most_parts = std::min(tiling.split_k, most_parts_of_k(processors));
  const int parts = may_split ? static_cast<int>(std::min<std::int64_t>(most_parts, floor_power_of_two(k_blocks))) : 1;
  tiling.split_k = parts;
  if (tiling.columns() > kMostColumnsOfPart) tiling.split_k = 1;
  if (tiling.cluster_m * tiling.cluster_n > processors.all) tiling.cluster_m = tiling.cluster_n = 1;
  division.rows = ceil_div(ceil_div(call.m, tiling.block_m), tiling.cluster_m);
  division.columns = ceil_div(ceil_div(call.n, tiling.block_n), tiling.cluster_n);
  division.tiles = division.whole_tiles = division.rows * division.columns * call.batches;
  const std::int64_t clusters = clusters_at_once(tiling, processors);
  division.clusters_at_once = clusters;
  // Parts of k that meet in a cluster have no ring to go on with: each cluster has one tile.
  division.clusters = tiling.split_k > 1 ? division.tiles : std::min(division.tiles, clusters);

  const Team alone{1, std::min(choice.group_m, division.rows)};
  division.band_rows = alone.band_rows;
  if (!tiling.shares) return division;

  const std::int64_t shared_tiles = is_cut ? division.tiles : division.tiles % clusters;
  const bool in_step = shared_tiles == division.tiles;  // else some clusters begin later than others
  const Team team = in_step ? team_of(call, division, clusters, alone) : alone;
  const std::int64_t team_tiles = shared_tiles / team.tiles, blocks = team_tiles * k_blocks;
  std::int64_t share =
      team_tiles == 0 ? 0 : std::max(equal_share(team_tiles, clusters / team.tiles, k_blocks, in_step), choice.k_share);
  if (is_cut) share = std::min(share, kMostBlocksOfFp8);
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;  // the kernel counts them in 32 bits
  if (!may_split || shared_tiles == 0 || share >= k_blocks || blocks > kMostBlocks) {
    tiling.shares = choice.k_share == kNoShare;
    return division;
  }
  division.band_rows = team.band_rows;
  division.team = team.tiles;
  if (team.tiles == 1) {
    // Whole tiles before them read together.
    const std::int64_t whole = in_step ? 0 : 1;
    division.a_reads = reads_of(operand_bytes(call, call.a, call.m),
                                std::max<std::int64_t>(1, whole + shared_tiles / (division.rows * call.batches)));
    division.b_reads = reads_of(operand_bytes(call, call.b, call.n),
                                std::max<std::int64_t>(1, whole + shared_tiles / (division.columns * call.batches)));
  }
  division.whole_tiles -= shared_tiles;
  division.share = share;
  division.num_shares = ceil_div(blocks, share) * team.tiles;
  division.clusters = division.whole_tiles > 0 ? clusters : division.num_shares;
  return division;
}

std::int64_t sm90_k_blocks(const Sm90Call& call) {
  return ceil_div(call.k * itemsize_bytes(call.a.dtype), ops::MatmulSm90Places::kRowBytes);
}

}  // namespace kiln::matmul
