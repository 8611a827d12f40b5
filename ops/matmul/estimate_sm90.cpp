#include "ops/matmul/estimate_sm90.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>

#include "ops/common/grid.hpp"
#include "ops/matmul/machine.hpp"

namespace kiln::matmul {
namespace {

using Tile = ops::MatmulSm90Tiling;

// Constants of an H200 at 1755 MHz, fitted to 3400 times of random and of listed products (2026-11-25). The logarithms
// of the estimates are off by 0.15; of several configs the one with the least estimate takes 1.6% longer than the
// fastest. Clocks and rates of one multiprocessor, unless it is said otherwise.
constexpr double kStartUs = 4.55;  // an empty stream's launch, until the first block of k is there, and the end
constexpr double kOverlap = 0.45;  // of the shorter of computing and memory, what is not hidden behind the other
constexpr double kMultiply = 1.00;
constexpr double kL2BytesPerClock = 6600;  // of all
constexpr double kArrivingBytesPerClock = 67;
// From memory, rows that start at the L2's lines and others. Held against the 2692 times of this kernel in
// benchmarks/models/2026-11-25-h200-random-products.json, 2026-11-28-h200-more.json and 2026-11-28-h200-f32.json.
constexpr double kFromMemoryPerClock = 60, kFromMemoryOffLines = 24;
constexpr double kWaiting = 0.12;        // longer, where multiplying and loading take as long
constexpr double kShortRows = 2.1;       // rows of 64 bytes take as long as rows of 128
constexpr double kOffLines = 1.59;       // rows that start off the L2's lines, which take two of them
constexpr std::int64_t kShortLine = 32;  // bytes of k
// Times as long, where tiles' ends are to be hidden: fp8 on an H200 (2026-11-28).
constexpr double kShortLines = 1.3, kShortLinesTogether = 2;
constexpr double kLatency = 1610;  // of a stage that is asked for when another is done with
constexpr double kStore = 385;     // each time
constexpr double kStoreBytesPerClock = 25;
constexpr double kStoreByThreads = 0.37;  // clocks an element
constexpr double kStoredInL2 = 0.58;      // beside what is loaded
constexpr double kAddendsPerClock = 21;
constexpr double kWholeAddend = 0.58;           // clocks an element
constexpr double kGelu = 0.123, kSilu = 0.153;  // clocks an element
constexpr double kHiddenStore = 0.86;           // of storing, what a group's own products must hide
constexpr double kExposedStore = 0.66;          // of storing, what is not won back by boxes that arrive meanwhile
constexpr double kCluster = 210;
constexpr double kExchange = 1070;              // of sums between two blocks of a cluster
constexpr double kExchangedBytesPerClock = 16;  // held against benchmarks/models/2026-11-28-h200-more.json
constexpr double kNextCluster = 2580;           // a cluster that has a tile alone ends, and another starts
constexpr double kPart = 270;                   // a part of a shared tile leaves
constexpr double kCombineUs = 4.45;
constexpr double kCombineBytesPerUs = 3.2e6;
constexpr double kMemoryBytesPerClock = 2400;  // of all
// Times as long, for rows of the output that start at halves of the memory's sectors: with what programs write side by
// side at the same time, so many bytes of a row, they meet in the L2, at its ends they do not. Held against 12 configs
// each of five products and 6 each of 37 (H200, 2026-11-29).
constexpr double kHalfSectors = 1.45, kBytesAtEnds = 96;
constexpr std::int64_t kSectorBytes = 32, kMeetsInL2Bytes = std::int64_t{24} << 20;
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
double memory_clocks(const Sm90Call& call, std::int64_t out_bytes, const Sm90Division& division) {
  return as_double(call.batches) *
         (as_double(call.m * division.a_reads + call.n * division.b_reads) *
              as_double(call.k * itemsize_bytes(call.a.dtype)) +
          as_double(call.m) * as_double(call.n * out_bytes) * halves_of_sectors(call, out_bytes, division.tiling)) /
         kMemoryBytesPerClock;
}

bool is_off_lines(const Sm90Operand& operand) {
  return operand.pitch * itemsize_bytes(operand.dtype) % ops::MatmulSm90Places::kRowBytes != 0;
}

/// What the L2 gives for `rows` rows of 128 bytes of an operand, in bytes: rows off its lines take two of them.
double l2_bytes(const Sm90Operand& operand, double rows) {
  return rows * ops::MatmulSm90Places::kRowBytes * (is_off_lines(operand) ? kOffLines : 1);
}

double activation_clocks(Activation activation) {
  return activation == Activation::gelu ? kGelu : activation == Activation::silu ? kSilu : 0;
}

/// Of one oriented call.
double estimate_us(const Sm90Call& call, const Sm90Division& division, const Sm90Conditions& conditions) {
  const Tile& tile = division.tiling;
  const std::int64_t a_size = itemsize_bytes(call.a.dtype), a_rows = tile.block_m / tile.cluster_n;
  const std::int64_t all_k_blocks = sm90_k_blocks(call);
  const double k_blocks = as_double(ceil_div(all_k_blocks, tile.split_k));
  const double tile_elements = as_double(tile.block_m) * tile.block_n;
  const std::int64_t blocks = division.clusters * tile.cluster_blocks();
  const double together =
      as_double(std::clamp<std::int64_t>(ceil_div(blocks, conditions.processors), 1, tile.resident));
  const double busy = as_double(std::min(blocks, conditions.processors));

  // A step of k. Shared memory gives 128 bytes a clock, and each 64 rows of a meet all of b.
  const double reading = as_double(tile.block_m) / 64 * (64 + tile.block_n);
  const double products = tile_elements / 32 * kMultiply;
  const bool has_short_rows =
      call.a.is_mn && a_size * ops::matmul_sm90_panel(static_cast<int>(a_size), static_cast<int>(a_rows)) < 128;
  const double from_l2 = l2_bytes(call.a, as_double(a_rows) * (has_short_rows ? kShortRows : 1)) +
                         l2_bytes(call.b, as_double(tile.block_n) / tile.cluster_m);
  const double l2_rate = kL2BytesPerClock / busy;  // of each multiprocessor
  const double loading =
      std::max(from_l2 / l2_rate, as_double(tile.block_m + tile.block_n) * 128 / kArrivingBytesPerClock);
  // Where they take about as long, each waits for the other now and then.
  const double ratio = std::min(products, loading) / std::max(products, loading), square = ratio * ratio;
  const double both = std::max(products, loading) * (1 + kWaiting * square * square * square);
  double step = std::max(together * std::max(both, reading), kLatency / tile.stages);
  // An operand in registers is read while another group's product runs, if there is one.
  if (tile.tile_each && call.a.is_mn && a_size != 2) step *= 1.15;

  const double computing = (call.adds_row ? tile_elements / kAddendsPerClock : 0) +
                           tile_elements * ((call.form == Sm90Form::with_addend ? kWholeAddend : 0) +
                                            activation_clocks(conditions.activation));
  const double out_bytes = tile_elements * as_double(conditions.out_bytes);
  const double leaving = call.out_is_mapped ? out_bytes / kStoreBytesPerClock : tile_elements * kStoreByThreads;
  const double storing = kStore + (leaving + computing) * together / tile.split_k;
  const double rounds =
      as_double(tile.split_k > 1
                    ? ceil_div(division.tiles, std::max<std::int64_t>(conditions.processors / tile.cluster_blocks(), 1))
                    : ceil_div(division.whole_tiles, division.clusters));
  const double multiplying = rounds * k_blocks * step;
  double clocks = rounds == 0                      ? 0
                  : tile.tile_each || together > 1 ? std::max(multiplying, kHiddenStore * rounds * storing) + storing
                                                   : multiplying + (kExposedStore * (rounds - 1) + 1) * storing;
  // Boxes of such lines take as many clocks as full ones: a tile's end hides behind nothing.
  if (a_size == 1 && call.k <= kShortLine)
    clocks *= together > 1 ? kShortLinesTogether : tile.tile_each ? kShortLines : 1;
  // What is stored goes the way of what is loaded.
  clocks =
      std::max(clocks, rounds * together * (k_blocks * from_l2 + kStoredInL2 * out_bytes / tile.split_k) / l2_rate);
  if (tile.split_k > 1)
    clocks += kExchange * std::sqrt(as_double(tile.split_k - 1)) +
              tile_elements * 4 * (1 - 1.0 / tile.split_k) / kExchangedBytesPerClock + (rounds - 1) * kNextCluster;
  if (tile.cluster_m * tile.cluster_n > 1) clocks += kCluster;
  double us = kStartUs;
  if (tile.shares) {
    const double part = kPart + tile_elements * 4 / kStoreBytesPerClock;
    // More shares than clusters run at a time only where k is cut for its sums' sake.
    const std::int64_t at_once =
        std::max<std::int64_t>(conditions.processors * tile.resident / (tile.cluster_blocks() * division.team), 1) *
        division.team;
    clocks += as_double(std::max<std::int64_t>(ceil_div(division.num_shares, at_once), 1)) *
              (as_double(division.share) * step + 1.5 * part);
    us += kCombineUs + as_double(division.scratch_bytes()) / kCombineBytesPerUs;
  }
  const auto from_memory = [&](const Sm90Operand& operand, std::int64_t rows) {
    return as_double(call.batches) * as_double(rows) * as_double(call.k * a_size) /
           (busy * (is_off_lines(operand) ? kFromMemoryOffLines : kFromMemoryPerClock));
  };
  const double memory =
      std::max(memory_clocks(call, conditions.out_bytes, division),
               from_memory(call.a, call.m * division.a_reads) + from_memory(call.b, call.n * division.b_reads));
  us += (std::max(clocks, memory) + kOverlap * std::min(clocks, memory)) / kClocksPerUs;
  for (const Sm90Operand* operand : {&call.a, &call.b})
    if (operand->workspace >= 0) us += kCopyUs + 2 * as_double(packed_bytes(*operand, call)) / kCopyBytesPerUs;
  return us;
}

constexpr Tile tile(int block_m, int block_n, int stages, int cluster_m, int cluster_n, int split_k, int math_groups,
                    bool tile_each = false, int resident = 1) {
  return {block_m, block_n, stages, cluster_m, cluster_n, split_k, math_groups, tile_each, resident, false};
}

// The first of several that take as long is taken.
constexpr Tile kWideTiles[] = {
    tile(128, 256, 4, 2, 1, 1, 2),         tile(128, 128, 6, 2, 1, 1, 2, true), tile(256, 128, 4, 2, 1, 1, 2),
    tile(128, 192, 4, 1, 2, 1, 2),         tile(128, 128, 6, 2, 1, 1, 2),       tile(64, 128, 8, 2, 1, 1, 1),
    tile(128, 64, 8, 1, 1, 1, 2),          tile(64, 128, 8, 1, 1, 1, 1),        tile(128, 64, 6, 1, 1, 2, 2),
    tile(64, 64, 8, 1, 1, 1, 1),           tile(64, 64, 8, 1, 1, 2, 1),         tile(64, 64, 6, 1, 1, 4, 1),
    tile(64, 64, 6, 1, 1, 8, 1),           tile(128, 64, 6, 1, 1, 4, 2),        tile(128, 64, 6, 1, 1, 8, 2),
    tile(64, 128, 6, 1, 1, 4, 1),          tile(128, 256, 4, 1, 1, 1, 2),       tile(128, 128, 6, 1, 1, 1, 2),
    tile(128, 160, 4, 1, 1, 1, 2),         tile(128, 224, 4, 1, 1, 1, 2),       tile(128, 192, 4, 1, 1, 1, 2),
    tile(128, 96, 6, 1, 1, 1, 2),          tile(128, 80, 6, 1, 1, 1, 2),        tile(128, 48, 8, 1, 1, 1, 2),
    tile(64, 64, 5, 1, 1, 1, 1, false, 2),
};
constexpr Tile kNarrowTiles[] = {
    tile(64, 16, 10, 1, 1, 2, 1), tile(128, 16, 9, 1, 1, 2, 2),       tile(64, 16, 10, 1, 1, 1, 1),
    tile(128, 32, 9, 1, 1, 2, 2), tile(64, 32, 10, 1, 1, 2, 1),       tile(64, 32, 10, 1, 1, 1, 1),
    tile(64, 32, 8, 1, 1, 4, 1),  tile(128, 16, 9, 1, 1, 1, 2, true), tile(128, 32, 9, 1, 1, 1, 2, true),
};
// Blocks of k, for choices that share tiles. Many short parts of a narrow tile are all begun at once, but added one
// behind the other: with 4 blocks ten products of k from 4608 to 88,791 took 11% longer.
constexpr std::int64_t kShare = 4, kNarrowShare = 16;

/// Candidates for a form of the kernel, with and without the exchange of operands and the sharing of tiles.
std::vector<Sm90Choice> candidates_of(const Sm90Call& call) {
  std::vector<Sm90Choice> candidates;
  const auto add_all = [&](const auto& tiles) {
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
    add_all(kWideTiles);
  return candidates;
}

/// The estimate for a candidate; infinite for one that launches what another does.
double candidate_us(const Sm90Call& call, const Sm90Call& turned, const Sm90Choice& choice,
                    const Sm90Conditions& conditions) {
  const Sm90Call& oriented = choice.exchanges ? turned : call;
  const Sm90Division division = sm90_division(oriented, choice, conditions.processors, conditions.may_split);
  if (choice.tiling.shares != division.tiling.shares || choice.tiling.split_k != division.tiling.split_k)
    return std::numeric_limits<double>::infinity();
  return estimate_us(oriented, division, conditions);
}

/// Rows that start off the L2's lines take two of them each. Where the L2 is what is waited for, to have more of them
/// asked for at once than the products need makes the first ones late.
void limit_stages(const Sm90Call& call, const Sm90Conditions& conditions, Sm90Estimate& estimate) {
  constexpr int kStagesOffLines = 6;
  const double memory_us = memory_clocks(call, conditions.out_bytes, {.tiling = estimate.choice.tiling}) / kClocksPerUs;
  if (call.form != Sm90Form::narrow && (is_off_lines(call.a) || is_off_lines(call.b)) &&
      estimate.us > kStartUs + 2.5 * memory_us)
    estimate.choice.tiling.stages = std::min(estimate.choice.tiling.stages, kStagesOffLines);
}

/// An engine has another number of rows at each step: what a weight is multiplied by then is to take few kernels. Those
/// of the numbers of rows that engines have most count more than once; some between and just above them stand for the
/// rest.
struct WeightRows {
  std::int64_t rows;
  double times;
};
constexpr std::int64_t kLeastWeightExtent = 256;
constexpr WeightRows kManyRows[] = {{64, 2},  {128, 2}, {192, 1},  {256, 2},  {264, 1},  {512, 2},
                                    {520, 1}, {768, 1}, {1024, 3}, {2048, 3}, {4096, 3}, {8192, 3}};
constexpr std::int64_t kMostRowsOfWeight = kManyRows[std::size(kManyRows) - 1].rows;
constexpr WeightRows kNarrowRows[] = {{8, 1}, {16, 1}, {24, 1}, {32, 1}};
constexpr std::size_t kKernelsForManyRows = 5;
/// From this k on one row takes two kernels, and few rows make do with one.
constexpr std::int64_t kLongOfOneRow = 8192;
constexpr std::size_t kernels_for_few_rows(std::int64_t k) {
  return k < kLongOfOneRow ? 2 : 1;
}
// For few rows of long k one kernel more, to combine with, is worth this: what else serves them takes two as well.
constexpr double kWorthAKernel = 0.4;  // of the time

Sm90Call with_rows(Sm90Call call, std::int64_t rows) {
  (call.transposed ? call.n : call.m) = rows;
  return call;
}

/// Of the candidates those whose kernels together serve all numbers of rows best: one after the other as they save
/// most, and then each exchanged for another while that saves something.
std::vector<std::size_t> kernels_of_a_weight(const Sm90Call& call, const std::vector<Sm90Choice>& candidates,
                                             const Sm90Conditions& conditions) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const bool is_narrow = call.form == Sm90Form::narrow;
  const std::span<const WeightRows> rows = is_narrow ? std::span<const WeightRows>(kNarrowRows) : kManyRows;
  std::vector<double> logarithms(candidates.size() * rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Sm90Call at = with_rows(call, rows[r].rows);
    const Sm90Call turned = exchanged(at);
    for (std::size_t c = 0; c < candidates.size(); ++c)
      logarithms[c * rows.size() + r] = std::log(candidate_us(at, turned, candidates[c], conditions));
  }
  std::vector<std::size_t> chosen;
  std::size_t most = is_narrow ? kernels_for_few_rows(call.k) : kKernelsForManyRows;
  double least = kNever;
  /// Whether another candidate in the place of chosen[i] saves something; the one that saves most is there then.
  const auto improves = [&](std::size_t i) {
    // Tiles that are shared take a kernel more, to combine with, for each order of operands.
    bool combines[2] = {};
    std::vector<double> others(rows.size(), kNever);
    for (std::size_t other = 0; other < chosen.size(); ++other) {
      if (other == i) continue;
      const Sm90Choice& choice = candidates[chosen[other]];
      if (choice.tiling.shares) combines[choice.exchanges] = true;
      for (std::size_t r = 0; r < rows.size(); ++r)
        others[r] = std::min(others[r], logarithms[chosen[other] * rows.size() + r]);
    }
    const double before = least;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const bool combines_too = candidates[c].tiling.shares && !combines[candidates[c].exchanges];
      if (chosen.size() + combines[0] + combines[1] + combines_too > most) continue;
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
  while (chosen.size() < most) {
    chosen.push_back(candidates.size());
    if (improves(chosen.size() - 1)) continue;
    chosen.pop_back();
    break;
  }
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < chosen.size(); ++i) again = improves(i) || again;
  }
  if (is_narrow && !chosen.empty()) {
    double times = 0;
    for (const WeightRows& of : rows) times += of.times;
    const std::vector<std::size_t> without = chosen;
    const double enough = least + times * std::log(1 - kWorthAKernel);
    ++most;
    chosen.resize(1);
    if (!improves(0) || least > enough) return without;
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
  for (Sm90Estimate& estimate : ranking) limit_stages(call, conditions, estimate);
  return ranking;
}

Sm90Estimate sm90_default(const Sm90Call& call, const Sm90Conditions& conditions) {
  const std::vector<Sm90Choice> candidates = candidates_of(call);
  const Sm90Call turned = exchanged(call);
  Sm90Estimate best{.choice = candidates.front(), .us = std::numeric_limits<double>::infinity()};
  const auto consider = [&](const Sm90Choice& choice) {
    if (const double us = candidate_us(call, turned, choice, conditions); us < best.us) best = {choice, us};
  };
  // More rows than those are multiplied for so long that a kernel more is nothing.
  if (is_of_a_weight(call) && (call.transposed ? call.n : call.m) <= kMostRowsOfWeight)
    for (const std::size_t chosen : kernels_of_a_weight(call, candidates, conditions)) consider(candidates[chosen]);
  if (!std::isfinite(best.us)) std::for_each(candidates.begin(), candidates.end(), consider);
  limit_stages(call, conditions, best);
  return best;
}

}  // namespace kiln::matmul
