#include "ops/matmul/tiling_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/tunable.hpp"
#include "ops/matmul/machine.hpp"
#include "ops/matmul/tiling.hpp"

namespace kiln::matmul {
namespace {

constexpr std::int64_t kAccessBytes = 16;
constexpr std::int64_t kLanes = 32;
// The registers of a thread bound how much it may hold. f64 with gelu behind it spills sooner: on sm_100 with 8
// elements of a tile and 32 loaded.
constexpr std::int64_t kLeastEach = 2, kMostEach = 16, kMostEachWide = 4;         // elements of a tile
constexpr std::int64_t kLeastLoaded = 8, kMostLoaded = 64, kMostLoadedWide = 32;  // before the first is used

constexpr std::int64_t kBlockN[] = {4, 1, 2, 8, 16, 32, 64, 128, 256, 512};
constexpr std::int64_t kBlockK[] = {8, 4, 16, 32, 64, 128, 256, 512};
constexpr std::int64_t kUnroll[] = {8, 4, 2, 1};
constexpr std::int64_t kSplitK[] = {1, 2, 4, 8, 16, 32, 64, 128};
constexpr std::int64_t kNumWarps[] = {4, 8};

std::int64_t most_elements_each(bool is_wide) {
  return is_wide ? kMostEachWide : kMostEach;
}

std::int64_t most_elements_loaded(bool is_wide) {
  return is_wide ? kMostLoadedWide : kMostLoaded;
}

/// Whether all of a matrix's lines, so far apart, start at packets of so many elements.
bool has_packets(const Matrix& matrix, std::int64_t line_stride, std::int64_t packet) {
  return matrix.starts_packet && line_stride % packet == 0 &&
         std::all_of(matrix.batch_strides.begin(), matrix.batch_strides.end(),
                     [&](std::int64_t stride) { return stride % packet == 0; });
}

struct RowsTiling {
  std::int64_t block_n, block_k, unroll, split_k, num_warps;

  std::int64_t each() const { return block_n * block_k / (kLanes * num_warps); }
};

/// A call's part of the estimate: what is the same for all tilings.
class RowsCost {
 public:
  RowsCost(const MatmulCall& call, const Target& target)
      : call_(call),
        n_(call.n),
        k_(std::max<std::int64_t>(call.k, 1)),
        batches_(call.batches()),
        rows_(ceil_power_of_two(call.m)),
        itemsize_bytes_(itemsize_bytes(call.b.dtype)),
        pitch_bytes_((runs_along_k(call) ? call.b.column_stride : call.b.row_stride) * itemsize_bytes_),
        processors_(usable_processors(call, target)),
        along_k_(runs_along_k(call)),
        is_packed_(rows_vector_width(call) > 1),
        a_across_(order_of(call.a) != 0 && along_k_) {}

  /// The constants are those of 1050 times of 171 random products on an H200 (2026-11-28), but kLineClocks, of 415
  /// times of 28 more. The logarithms have residuals of 0.24; of some 16 configs each, the one that is chosen
  /// takes 5.5% longer than the fastest.
  double us(const RowsTiling& tiling) const {
    constexpr double kStartUs = 4.06, kCombineUs = 2.88, kCombinePartUs = 0.066;
    constexpr double kMemoryBytesPerClock = 2130, kSegmentBytes = 15;  // each row of a tile costs as many bytes more
    constexpr double kInstructionsPerClock = 83;                       // of the lanes of one multiprocessor
    // Instructions to an element of b, and to one of a for it:
    constexpr double kPackedB = 2.3, kSingleB = 12.3, kPackedA = 5.3, kSingleA = 4.9, kAcrossA = 1.1;
    constexpr double kMaskedB = 6.7, kMaskedA = 19.7, kOutput = 9.7, kProgram = 9500;
    constexpr double kWaitClocks = 680, kMaskedWaits = 0.79, kJoinClocks = 360;
    constexpr double kOtherRegisters = 50, kMostRegisters = 255, kRegisters = 65536, kWarps = 64;
    // Of one multiprocessor for each line of its cache that rows of tiles touch: rows of eight bytes that lie lines
    // apart took three times as long as their bytes say (1024 columns of 3306 rows, four of them a program: 33 us, by
    // eights 14).
    constexpr double kLineBytes = 128, kLineClocks = 2;
    constexpr double kFewRounds = 4;  // up to which the last one counts as a whole
    constexpr double kAlone = 0.25;   // a program alone does not ask for memory while it computes

    const auto as_double = [](std::int64_t x) { return static_cast<double>(x); };
    const double tile = as_double(tiling.block_n * tiling.block_k), rows = as_double(rows_);
    const KSplit split = split_k(call_, tiling.block_k, tiling.split_k);
    const std::int64_t depth = split.k_per_split, splits = split.num_splits;
    const double programs = as_double(ceil_div(n_, tiling.block_n) * batches_ * splits);

    const std::int64_t at_once = tiling.block_k * tiling.unroll, rest = depth % at_once;
    std::int64_t steps = depth / at_once, masked_tiles = 0;
    if (n_ < tiling.block_n || (rest > 0 && steps == 0))
      masked_tiles = ceil_div(depth, tiling.block_k), steps = 0;
    else if (rest > 0)
      ++steps;  // which lies further ahead
    const double unmasked = as_double(steps * tiling.unroll) * tile, masked = as_double(masked_tiles) * tile;
    const double to_element =
        (is_packed_ ? kPackedB : kSingleB) + ((is_packed_ ? kPackedA : kSingleA) + (a_across_ ? kAcrossA : 0)) * rows;
    const double work = (unmasked * to_element + masked * (kMaskedB + kMaskedA * rows) +
                         as_double(tiling.block_n) * rows * kOutput + as_double(tiling.num_warps) * kProgram) /
                        kInstructionsPerClock;
    const double wait = kWaitClocks * (as_double(steps) + kMaskedWaits * as_double(masked_tiles)) + kJoinClocks * rows;

    const double registers =
        std::min(as_double(tiling.each()) * (as_double(tiling.unroll * itemsize_bytes_) / 4 + rows) + kOtherRegisters,
                 kMostRegisters);
    const double resident =
        std::max(1.0, std::floor(std::min(kWarps, kRegisters / (kLanes * registers)) / as_double(tiling.num_warps)));
    const double each_processor = programs / as_double(processors_);
    const double rounds = std::max(1.0, each_processor / resident);
    const double begun = each_processor < kFewRounds ? std::ceil(each_processor) : each_processor;
    const double worked = (each_processor > 1 ? begun : each_processor) * work;
    const double waits = (rounds < kFewRounds ? std::ceil(rounds) : rounds) * wait;

    const double segment =
        as_double((along_k_ ? std::min(tiling.block_k, k_) : std::min(tiling.block_n, n_)) * itemsize_bytes_);
    const double tile_rows = along_k_ ? as_double(tiling.block_n * ceil_div(depth, tiling.block_k)) : as_double(depth);
    const double lines = tile_rows * (as_double(pitch_bytes_) < kLineBytes ? as_double(pitch_bytes_) / kLineBytes
                                                                           : std::ceil(segment / kLineBytes));
    double bytes = as_double(batches_ * n_ * k_ * itemsize_bytes_) * (1 + kSegmentBytes / segment) *
                   (1 + kAlone / std::clamp(each_processor, 1.0, resident));
    double us = kStartUs;
    if (splits > 1) {
      us += kCombineUs + kCombinePartUs * as_double(splits);
      bytes += as_double(2 * 4 * batches_ * n_ * rows_ * splits);
    }
    return us + std::max({worked, waits, work + wait, begun * lines * kLineClocks, bytes / kMemoryBytesPerClock}) /
                    kClocksPerUs;
  }

 private:
  const MatmulCall& call_;
  std::int64_t n_, k_, batches_, rows_, itemsize_bytes_, pitch_bytes_, processors_;
  bool along_k_, is_packed_, a_across_;
};

}  // namespace

bool runs_along_k(const MatmulCall& call) {
  return order_of(call.b) == 1;
}

std::int64_t rows_vector_width(const MatmulCall& call) {
  const bool along_k = runs_along_k(call);
  const std::int64_t packet = kAccessBytes / itemsize_bytes(call.b.dtype);
  const bool a_has_packets =
      !along_k || order_of(call.a) != 0 || has_packets(call.a, call.m > 1 ? call.a.row_stride : 0, packet);
  return a_has_packets && has_packets(call.b, along_k ? call.b.column_stride : call.b.row_stride, packet) ? packet : 1;
}

ConfigSpace rows_space(bool is_wide) {
  const common::ConfigExpression to_a_thread =
      common::ConfigExpression("BLOCK_N") * "BLOCK_K" / (kLanes * common::ConfigExpression("num_warps"));
  return {{common::tunable("BLOCK_N", kBlockN), common::tunable("BLOCK_K", kBlockK), common::tunable("UNROLL", kUnroll),
           common::tunable("SPLIT_K", kSplitK), common::tunable("num_warps", kNumWarps)},
          {between(kLeastEach, to_a_thread, most_elements_each(is_wide)),
           between(kLeastLoaded, to_a_thread * "UNROLL", most_elements_loaded(is_wide))}};
}

EstimatedConfig rows_default(const MatmulCall& call, const Target& target) {
  constexpr std::int64_t kLeastThreads = kLanes * kNumWarps[0];
  const RowsCost cost(call, target);
  const bool is_wide = call.b.dtype == DType::f64;
  const std::int64_t most_each = most_elements_each(is_wide), most_loaded = most_elements_loaded(is_wide);
  // Tiles reach over an end no further than threads need elements.
  const std::int64_t most_n = ceil_power_of_two(call.n), most_k = ceil_power_of_two(call.k);
  const std::int64_t enough_programs = 8 * usable_processors(call, target);
  RowsTiling best{};
  double least_us = std::numeric_limits<double>::infinity();
  for (const std::int64_t block_n : kBlockN)
    for (const std::int64_t block_k : kBlockK) {
      if ((block_n > most_n || block_k > most_k) && block_n * block_k > kLeastEach * kLeastThreads) continue;
      for (const std::int64_t num_warps : kNumWarps) {
        RowsTiling tiling{block_n, block_k, 1, 1, num_warps};
        if (block_n * block_k < kLeastEach * kLanes * num_warps || tiling.each() > most_each) continue;
        const std::int64_t programs = ceil_div(call.n, block_n) * call.batches();
        for (const std::int64_t unroll : kUnroll) {
          tiling.unroll = unroll;
          if (tiling.each() * unroll < kLeastLoaded || tiling.each() * unroll > most_loaded) continue;
          for (const std::int64_t split_k : kSplitK) {
            if (split_k > 1 && (programs * split_k > enough_programs || call.k / split_k < block_k * unroll)) break;
            tiling.split_k = split_k;
            const double us = cost.us(tiling);
            if (us < least_us) least_us = us, best = tiling;
          }
        }
      }
    }
  return {{{"BLOCK_N", best.block_n},
           {"BLOCK_K", best.block_k},
           {"UNROLL", best.unroll},
           {"SPLIT_K", best.split_k},
           {"num_warps", best.num_warps}},
          least_us};
}

}  // namespace kiln::matmul
