#include "ops/matmul/estimate_sm90.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>

#include "ops/common/grid.hpp"
#include "ops/matmul/costs_sm90.hpp"
#include "ops/matmul/machine.hpp"

namespace kiln::matmul {
namespace {

using Tile = ops::MatmulSm90Tiling;

/// Rows of 64 bytes take as long as rows of 128.
constexpr double kShortRows = 2.1;
constexpr std::int64_t kShortLine = 32;  // bytes of k
// Times as long, where tiles' ends are to be hidden: fp8 on an H200 (2026-11-28).
constexpr double kShortLines = 1.3, kShortLinesTogether = 2;
constexpr double kCouldShare = 1.007;  // times as long as by a kernel that cannot, where no tile is shared
// Times as long, for rows of the output that start at halves of the memory's sectors: with what programs write side by
// side at the same time, so many bytes of a row, they meet in the L2, at its ends they do not. Held against 12 configs
// each of five products and 6 each of 37 (H200, 2026-11-29).
constexpr double kHalfSectors = 1.45, kBytesAtEnds = 96;
constexpr std::int64_t kRowBytes = ops::MatmulSm90Places::kRowBytes, kSectorBytes = 32,
                       kMeetsInL2Bytes = std::int64_t{24} << 20;
constexpr double kCopyUs = 1.73, kCopyBytesPerUs = 2.5e6;  // of an operand, which is read and written

double as_double(std::int64_t x) {
  return static_cast<double>(x);
}

/// How much longer the memory takes for the output than its bytes say.
double halves_of_sectors(const Sm90Call& call, std::int64_t out_bytes, const Tile& tile) {
  if (!call.out_is_mapped || call.out_strides[call.transposed ? 1 : 0] * out_bytes % kSectorBytes == 0 ||
      call.batches * call.m * call.n * out_bytes <= kMeetsInL2Bytes)
    return 1;
  // Of tiles that are stored transposed those of a cluster do not meet.
  const int together = call.transposed ? std::min(tile.block_m, 128) : tile.block_n * tile.cluster_n;
  return kHalfSectors + kBytesAtEnds / as_double(together * out_bytes);
}

/// What the memory takes to move the output once and the operands as often as they are read.
double memory_clocks(const Sm90Call& call, std::int64_t out_bytes, const Sm90Division& division,
                     const Sm90Costs& costs) {
  return as_double(call.batches) *
         (as_double(call.m * division.a_reads + call.n * division.b_reads) *
              as_double(call.k * itemsize_bytes(call.a.dtype)) +
          as_double(call.m) * as_double(call.n * out_bytes) * halves_of_sectors(call, out_bytes, division.tiling)) /
         costs.memory_bytes_per_clock;
}

bool is_off_lines(const Sm90Operand& operand) {
  return operand.pitch * itemsize_bytes(operand.dtype) % kRowBytes != 0;
}
bool is_off_sectors(const Sm90Operand& operand) {
  return operand.pitch * itemsize_bytes(operand.dtype) % kSectorBytes != 0;
}

/// What the L2 gives for `rows` rows of 128 bytes of an operand, in bytes.
double l2_bytes(const Sm90Operand& operand, double rows, const Sm90Costs& costs) {
  return rows * kRowBytes *
         (1 + (is_off_lines(operand) ? costs.off_lines : 0) + (is_off_sectors(operand) ? costs.off_sectors : 0));
}

/// What two things that go on at once take together: where they take about as long, each waits for the other now and
/// then.
double together_clocks(double x, double y, double waiting) {
  const double ratio = std::min(x, y) / std::max(x, y), square = ratio * ratio;
  return std::max(x, y) * (1 + waiting * square * square * square);
}

/// Of a tile's row in a box that leaves.
std::int64_t store_line_bytes(const Sm90Call& call, std::int64_t out_bytes, const Tile& tile) {
  if (call.transposed) return kRowBytes;
  return ops::MatmulSm90Places::columns_at_once(tile.columns(), static_cast<int>(out_bytes)) * out_bytes;
}

double activation_clocks(Activation activation, const Sm90Costs& costs) {
  return activation == Activation::gelu ? costs.gelu : activation == Activation::silu ? costs.silu : 0;
}

/// Of one oriented call.
double estimate_us(const Sm90Call& call, const Sm90Division& division, const Sm90Conditions& conditions) {
  const Sm90Costs& costs = call.form == Sm90Form::narrow ? kSm90NarrowCosts : kSm90WideCosts;
  const Tile& tile = division.tiling;
  const std::int64_t a_size = itemsize_bytes(call.a.dtype), a_rows = tile.block_m / tile.cluster_n;
  const std::int64_t all_k_blocks = sm90_k_blocks(call);
  const double k_blocks = as_double(ceil_div(all_k_blocks, tile.split_k));
  const double tile_elements = as_double(tile.block_m) * tile.block_n;
  const std::int64_t blocks = division.clusters * tile.cluster_blocks();
  const double together =
      as_double(std::clamp<std::int64_t>(ceil_div(blocks, conditions.processors.all), 1, tile.resident));
  const double busy = as_double(std::min(blocks, conditions.processors.all));

  // A step of k. Shared memory gives 128 bytes a clock, and each 64 rows of a meet all of b.
  const double row_blocks = as_double(tile.block_m) / 64;
  const double reading = row_blocks * (64 + tile.block_n);
  const double products = tile_elements / 32 * costs.multiply;
  const double b_rows = as_double(call.b.is_mn ? ops::matmul_sm90_panels_extent(2, tile.block_n) : tile.block_n);
  const bool has_short_rows =
      call.a.is_mn && a_size * ops::matmul_sm90_panel(static_cast<int>(a_size), tile.block_m) < 128;
  const double from_l2 = l2_bytes(call.a, as_double(a_rows) * (has_short_rows ? kShortRows : 1), costs) +
                         l2_bytes(call.b, b_rows / tile.cluster_m, costs);
  const double l2_rate = costs.l2_bytes_per_clock / busy;  // of each multiprocessor
  const double loading =
      std::max(from_l2 / l2_rate, (as_double(tile.block_m) + b_rows) * 128 / costs.arriving_bytes_per_clock);
  const double both =
      together_clocks(together_clocks(products, loading, costs.waiting), reading, costs.waiting_for_reads);
  double step = std::max(together * both, costs.latency / tile.stages);
  // An operand in registers is read while another group's product runs, if there is one.
  if (tile.tile_each && call.a.is_mn && a_size != 2) step *= 1.15;

  // Of a whole addend threads ask for a few elements at a time, and wait for them.
  const double to_a_thread = as_double(tile.row_blocks() * tile.block_n) * 64 / 128;
  const double computing = (call.adds_row ? tile_elements / costs.addends_per_clock : 0) +
                           (call.form == Sm90Form::with_addend ? to_a_thread * costs.whole_addend : 0) +
                           tile_elements * activation_clocks(conditions.activation, costs);
  const double out_bytes = tile_elements * as_double(conditions.out_bytes);
  const double short_lines = as_double(kRowBytes / store_line_bytes(call, conditions.out_bytes, tile) - 1);
  const double leaving =
      call.out_is_mapped ? out_bytes / costs.store_bytes_per_clock * (1 + costs.short_stores * short_lines)
                         : tile_elements * costs.store_by_threads * (1 + costs.short_stores_by_threads * short_lines);
  const double storing = costs.store + (leaving + computing) * together / tile.owners();
  const double rounds = as_double(tile.split_k > 1 ? ceil_div(division.tiles, division.clusters_at_once)
                                                   : ceil_div(division.whole_tiles, division.clusters));
  const double multiplying = rounds * k_blocks * step;
  double clocks = rounds == 0 ? 0
                  : tile.tile_each || together > 1
                      ? std::max(multiplying, costs.hidden_store * rounds * storing) + storing
                      : multiplying + (costs.exposed_store * (rounds - 1) + 1) * storing;
  // Boxes of such lines take as many clocks as full ones: a tile's end hides behind nothing.
  if (a_size == 1 && call.k <= kShortLine)
    clocks *= together > 1 ? kShortLinesTogether : tile.tile_each ? kShortLines : 1;
  // What is stored goes the way of what is loaded.
  clocks = std::max(clocks,
                    rounds * together * (k_blocks * from_l2 + costs.stored_in_l2 * out_bytes / tile.split_k) / l2_rate);
  if (tile.split_k > 1)
    clocks += costs.exchange * std::sqrt(as_double(tile.split_k - 1)) +
              as_double((tile.split_k - 1) * tile.block_m * tile.columns() * 4) / costs.exchanged_bytes_per_clock +
              (rounds - 1) * costs.next_cluster;
  if (tile.cluster_m * tile.cluster_n > 1) clocks += costs.cluster * tile.cluster_m * tile.cluster_n;
  double us = costs.start_us;
  if (division.num_shares > 0) {
    const double part = costs.part + tile_elements * 4 / costs.store_bytes_per_clock;
    // More shares than clusters run at a time only where k is cut for its sums' sake.
    const std::int64_t at_once = std::max<std::int64_t>(division.clusters_at_once / division.team, 1) * division.team;
    clocks += as_double(std::max<std::int64_t>(ceil_div(division.num_shares, at_once), 1)) *
              (as_double(division.share) * step + 1.5 * part);
    us += costs.combine_us + as_double(division.scratch_bytes()) / costs.combine_bytes_per_us;
  }
  const auto from_memory = [&](const Sm90Operand& operand, std::int64_t rows) {
    return as_double(call.batches) * as_double(rows) * as_double(call.k * a_size) /
           (busy * (is_off_lines(operand) ? costs.from_memory_off_lines : costs.from_memory_per_clock));
  };
  const double memory =
      std::max(memory_clocks(call, conditions.out_bytes, division, costs),
               from_memory(call.a, call.m * division.a_reads) + from_memory(call.b, call.n * division.b_reads));
  us += (std::max(clocks, memory) + costs.overlap * std::min(clocks, memory)) / kClocksPerUs;
  for (const Sm90Operand* operand : {&call.a, &call.b})
    if (operand->workspace >= 0) us += kCopyUs + 2 * as_double(packed_bytes(*operand, call)) / kCopyBytesPerUs;
  return us;
}

constexpr Tile tile(int block_m, int block_n, int stages, int cluster_m, int cluster_n, int split_k, int math_groups,
                    bool tile_each = false, int resident = 1) {
  return {block_m, block_n, stages, cluster_m, cluster_n, split_k, math_groups, tile_each, resident, false};
}

// Of 266 tiles and clusters, those that take 1500 drawn products 0.4% longer than all would, by the estimates; the ones
// that serve weights most come first, and five with more parts of k last. The first of several that take as long is
// taken.
constexpr Tile kWideTiles[] = {
    tile(128, 128, 6, 2, 1, 1, 2, true), tile(128, 192, 4, 2, 1, 1, 2),         tile(64, 192, 6, 2, 1, 1, 1),
    tile(64, 128, 8, 2, 1, 1, 1),        tile(128, 160, 4, 2, 1, 1, 2),         tile(128, 256, 4, 2, 1, 1, 2),
    tile(64, 64, 12, 1, 2, 1, 1),        tile(128, 224, 4, 2, 1, 1, 2),         tile(128, 128, 6, 1, 2, 1, 2, true),
    tile(64, 224, 5, 2, 1, 1, 1),        tile(128, 64, 6, 1, 1, 2, 2),          tile(64, 64, 8, 1, 1, 2, 1),
    tile(128, 96, 6, 4, 1, 1, 2, true),  tile(64, 160, 6, 2, 1, 1, 1),          tile(128, 192, 4, 1, 2, 1, 2),
    tile(64, 112, 8, 2, 1, 1, 1),        tile(64, 128, 8, 1, 1, 4, 1),          tile(128, 160, 4, 1, 2, 1, 2),
    tile(64, 48, 8, 1, 1, 2, 1),         tile(64, 64, 8, 1, 1, 8, 1),           tile(64, 128, 6, 1, 1, 8, 1),
    tile(64, 64, 8, 1, 1, 1, 1),         tile(64, 64, 8, 1, 1, 4, 1),           tile(128, 128, 6, 4, 1, 1, 2, true),
    tile(64, 48, 12, 2, 1, 1, 1),        tile(128, 224, 4, 1, 2, 1, 2),         tile(64, 64, 12, 4, 1, 1, 1),
    tile(64, 96, 8, 1, 1, 4, 1),         tile(128, 112, 6, 2, 1, 1, 2, true),   tile(256, 128, 4, 2, 1, 1, 2),
    tile(128, 96, 5, 1, 1, 4, 2),        tile(128, 160, 4, 2, 2, 1, 2),         tile(64, 128, 8, 1, 4, 1, 1),
    tile(64, 96, 8, 2, 2, 1, 1),         tile(64, 160, 6, 4, 1, 1, 1),          tile(64, 96, 8, 1, 4, 1, 1),
    tile(64, 48, 12, 2, 2, 1, 1),        tile(64, 192, 6, 4, 1, 1, 1),          tile(128, 112, 6, 2, 2, 1, 2, true),
    tile(128, 80, 6, 2, 1, 1, 2, true),  tile(128, 128, 6, 2, 4, 1, 2, true),   tile(128, 192, 4, 4, 1, 1, 2),
    tile(64, 192, 6, 1, 2, 1, 1),        tile(64, 64, 5, 1, 1, 1, 1, false, 2), tile(64, 48, 8, 1, 1, 16, 1),
    tile(64, 48, 8, 1, 1, 8, 1),         tile(64, 64, 8, 1, 1, 16, 1),          tile(64, 48, 8, 1, 1, 4, 1),
    tile(64, 96, 6, 1, 1, 8, 1),
};
/// For whole addends: two groups that share a tile wait together, and each for little. Of fifteen such products seven
/// took 24 to 34% longer without these than the best of ten configs; by the estimates these now take 0.6%.
constexpr Tile kAddendTiles[] = {
    tile(128, 128, 6, 2, 1, 1, 2),
    tile(128, 96, 6, 2, 1, 1, 2),
    tile(128, 64, 6, 1, 1, 1, 2),
};
constexpr Tile kNarrowTiles[] = {
    tile(64, 16, 10, 1, 1, 2, 1),  tile(128, 16, 10, 1, 1, 2, 2),      tile(64, 16, 10, 1, 1, 1, 1),
    tile(128, 32, 9, 1, 1, 2, 2),  tile(64, 32, 10, 1, 1, 2, 1),       tile(64, 32, 10, 1, 1, 1, 1),
    tile(64, 16, 10, 1, 1, 8, 1),  tile(64, 32, 10, 1, 1, 4, 1),       tile(64, 32, 10, 1, 1, 8, 1),
    tile(64, 16, 10, 1, 1, 16, 1), tile(64, 16, 10, 1, 1, 4, 1),       tile(64, 32, 10, 1, 1, 16, 1),
    tile(128, 16, 10, 1, 1, 4, 2), tile(128, 16, 10, 1, 1, 8, 2),      tile(128, 32, 9, 1, 1, 4, 2),
    tile(128, 32, 9, 1, 1, 8, 2),  tile(128, 16, 10, 1, 1, 1, 2),      tile(128, 16, 10, 1, 1, 1, 2, true),
    tile(128, 32, 9, 1, 1, 1, 2),  tile(128, 32, 9, 1, 1, 1, 2, true), tile(128, 16, 8, 1, 1, 16, 2),
};
// Blocks of k, for choices that share tiles. Many short parts of a narrow tile are all begun at once, but added one
// behind the other: with 4 blocks ten products of k from 4608 to 88,791 took 11% longer.
constexpr std::int64_t kShare = 4, kNarrowShare = 16;

/// Of these the first do for weights, which all would serve 0.1% better, and choosing would take twice as long.
constexpr std::size_t kTilesForWeights = 22;

/// Candidates for a form of the kernel, with and without the exchange of operands and the sharing of tiles; of wide
/// tiles the first.
std::vector<Sm90Choice> candidates_of(const Sm90Call& call, std::size_t wide_tiles = std::size(kWideTiles)) {
  std::vector<Sm90Choice> candidates;
  const auto add_all = [&](std::span<const Tile> tiles) {
    const bool may_exchange = call.form == Sm90Form::wide && !(call.a.is_mn && itemsize_bytes(call.a.dtype) != 2);
    for (const bool exchanges : {false, true}) {
      if (exchanges && !may_exchange) break;
      for (const Tile& tile : tiles) {
        if (!fits_registers(tile, call.form)) continue;
        Sm90Choice choice{.tiling = tile, .exchanges = exchanges};
        candidates.push_back(choice);
        if (tile.split_k > 1 || (call.form == Sm90Form::narrow && tile.tile_each)) continue;
        choice.tiling.shares = true;
        choice.k_share = call.form == Sm90Form::narrow ? kNarrowShare : kShare;
        candidates.push_back(choice);
      }
    }
  };
  if (call.form == Sm90Form::narrow)
    add_all(kNarrowTiles);
  else
    add_all(std::span(kWideTiles).first(wide_tiles));
  if (call.form == Sm90Form::with_addend) add_all(kAddendTiles);
  return candidates;
}

/// A candidate that shares tiles, as it leaves them whole.
Sm90Choice left_whole(Sm90Choice choice) {
  choice.k_share = kNoShare;
  return choice;
}

/// The estimate for a candidate; infinite for one that launches what another does.
double candidate_us(const Sm90Call& call, const Sm90Call& turned, const Sm90Choice& choice,
                    const Sm90Conditions& conditions) {
  const Sm90Call& oriented = choice.exchanges ? turned : call;
  const Sm90Division division = sm90_division(oriented, choice, conditions.processors, conditions.may_split);
  if (choice.tiling.shares != division.tiling.shares || choice.tiling.split_k != division.tiling.split_k)
    return std::numeric_limits<double>::infinity();
  const double us = estimate_us(oriented, division, conditions);
  return division.tiling.shares && division.num_shares == 0 ? us * kCouldShare : us;
}

/// An engine has another number of rows at each step: what a weight is multiplied by then is to take few kernels. Those
/// of the numbers of rows that engines have most count more than once; some between and just above them stand for the
/// rest.
struct WeightRows {
  std::int64_t rows;
  double times;
};
constexpr std::int64_t kLeastWeightExtent = 256;
constexpr WeightRows kManyRows[] = {{64, 2},   {128, 3},  {192, 1},  {256, 3},  {264, 1},  {384, 1},
                                    {512, 3},  {600, 1},  {768, 1},  {1024, 3}, {1400, 1}, {2048, 3},
                                    {2900, 1}, {4096, 3}, {5600, 1}, {8192, 3}};
constexpr std::int64_t kMostRowsOfWeight = kManyRows[std::size(kManyRows) - 1].rows;
constexpr WeightRows kNarrowRows[] = {{8, 1}, {16, 1}, {24, 1}, {32, 1}};
/// Kernels of a form, so that a weight takes eight. A second one for few rows would serve them 0.4% better by the
/// estimates; one more for many serves these 0.9% better. One row has a kernel of its own where the weight lies along
/// k. Where operands are copied first, it is more than eight: the copy, and what serves a few rows without.
std::size_t kernels_for(const Sm90Call& call) {
  const Sm90Operand& weight = call.transposed ? call.a : call.b;
  return call.form == Sm90Form::narrow ? 1 : weight.is_mn ? 7 : 6;
}

Sm90Call with_rows(Sm90Call call, std::int64_t rows) {
  (call.transposed ? call.n : call.m) = rows;
  return call;
}

/// Of the candidates those whose kernels together serve all numbers of rows best: one after the other as they save
/// most, and then each exchanged for another while that saves something.
std::vector<std::size_t> kernels_of_a_weight(const Sm90Call& call, const std::vector<Sm90Choice>& candidates,
                                             const Sm90Conditions& conditions) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::span<const WeightRows> rows =
      call.form == Sm90Form::narrow ? std::span<const WeightRows>(kNarrowRows) : kManyRows;
  std::vector<double> logarithms(candidates.size() * rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Sm90Call at = with_rows(call, rows[r].rows);
    const Sm90Call turned = exchanged(at);
    double whole_us = kNever;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      double us = candidate_us(at, turned, candidates[c], conditions);
      // The candidate before one that shares tiles is the same but for that.
      if (candidates[c].tiling.shares) us = std::min(us, whole_us * kCouldShare);
      whole_us = us;
      logarithms[c * rows.size() + r] = std::log(us);
    }
  }
  std::vector<std::size_t> chosen;
  const std::size_t most = kernels_for(call);
  double least = kNever;
  /// Whether another candidate in the place of chosen[i] saves something; the one that saves most is there then.
  const auto improves = [&](std::size_t i) {
    // Tiles that are shared take a kernel more, to combine with.
    bool combines = false;
    std::vector<double> others(rows.size(), kNever);
    for (std::size_t other = 0; other < chosen.size(); ++other) {
      if (other == i) continue;
      combines = combines || candidates[chosen[other]].tiling.shares;
      for (std::size_t r = 0; r < rows.size(); ++r)
        others[r] = std::min(others[r], logarithms[chosen[other] * rows.size() + r]);
    }
    const double before = least;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (chosen.size() + (combines || candidates[c].tiling.shares) > most) continue;
      double sum = 0;
      for (std::size_t r = 0; r < rows.size(); ++r)
        sum += rows[r].times * std::min(others[r], logarithms[c * rows.size() + r]);
      if (sum < least) {
        least = sum;
        chosen[i] = c;
      }
    }
    return least < before;
  };
  // An exchange may leave room for another, where what comes needs no kernel to combine with.
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < most; ++i) {
      const bool is_another = i == chosen.size();
      if (is_another) chosen.push_back(candidates.size());
      const bool better = improves(i);
      if (is_another && !better) {
        chosen.pop_back();
        break;
      }
      again = better || again;
    }
  }
  return chosen;
}

}  // namespace

bool is_of_a_weight(const Sm90Call& call) {
  const std::int64_t columns = call.transposed ? call.m : call.n;
  return call.batches == 1 && std::min(columns, call.k) >= kLeastWeightExtent;
}

std::vector<Sm90Estimate> sm90_ranking(const Sm90Call& call, const Sm90Conditions& conditions) {
  const Sm90Call turned = exchanged(call);
  std::vector<Sm90Estimate> ranking;
  for (const Sm90Choice& choice : candidates_of(call))
    if (const double us = candidate_us(call, turned, choice, conditions); std::isfinite(us))
      ranking.push_back({choice, us});
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const Sm90Estimate& x, const Sm90Estimate& y) { return x.us < y.us; });
  return ranking;
}

Sm90Estimate sm90_default(const Sm90Call& call, const Sm90Conditions& conditions) {
  const Sm90Call turned = exchanged(call);
  Sm90Estimate best{.choice = {}, .us = std::numeric_limits<double>::infinity()};
  const auto consider = [&](const Sm90Choice& choice) {
    if (const double us = candidate_us(call, turned, choice, conditions); us < best.us) best = {choice, us};
  };
  // More rows than those are multiplied for so long that a kernel more is nothing.
  if (is_of_a_weight(call) && (call.transposed ? call.n : call.m) <= kMostRowsOfWeight) {
    const std::vector<Sm90Choice> candidates = candidates_of(call, kTilesForWeights);
    for (const std::size_t chosen : kernels_of_a_weight(call, candidates, conditions)) {
      consider(candidates[chosen]);
      if (candidates[chosen].tiling.shares) consider(left_whole(candidates[chosen]));
    }
  }
  if (!std::isfinite(best.us)) std::ranges::for_each(candidates_of(call), consider);
  return best;
}

}  // namespace kiln::matmul
