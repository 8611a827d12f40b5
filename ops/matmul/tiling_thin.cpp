#include "ops/matmul/tiling_thin.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/tunable.hpp"
#include "ops/matmul/machine.hpp"

namespace kiln::matmul {
namespace {

constexpr std::int64_t kLanes = 32;
constexpr std::int64_t kMostEach = 32;     // elements of a thread
constexpr std::int64_t kMostLoaded = 128;  // times the steps of k that it loads for: more spills

constexpr std::int64_t kBlockM[] = {8, 1, 2, 4, 16};
constexpr std::int64_t kBlockN[] = {512, 16, 32, 64, 128, 256};
constexpr std::int64_t kUnroll[] = {4, 2, 8, 16, 32};
constexpr std::int64_t kNumWarps[] = {4, 1, 2};

struct ThinTiling {
  std::int64_t block_m, block_n, unroll, num_warps;

  std::int64_t threads() const { return kLanes * num_warps; }
  bool is_valid() const {
    const std::int64_t elements = block_m * block_n;
    return elements >= threads() && elements <= kMostEach * threads() && elements * unroll <= kMostLoaded * threads();
  }
};

/// The constants are those of 521 times of 188 random products on an H200 (2026-11-28), whose logarithms have residuals
/// of 0.16; of eight random configs each, the one that is chosen takes 6% longer than the fastest. kLoadAcross is that
/// of 178 times more, since b's numbers are loaded once for all rows.
double estimate_us(const MatmulCall& call, std::int64_t processors, const ThinTiling& tiling) {
  constexpr double kStartUs = 3.87;
  // Instructions of a thread; lanes that read a line each take a clock for each line of 128 bytes.
  constexpr double kProgram = 54, kProduct = 2.5, kLoad = 8.3, kLoadAcross = 30, kOutput = 3.8;
  constexpr double kInstructionsPerClock = 110;  // of the lanes of one multiprocessor
  constexpr double kClocksToOne = 1.28;          // of a thread's
  constexpr double kProgramClocks = 112;         // in which a multiprocessor begins no other
  // Each step waits, and longer for what comes from memory: along b's lines only where one begins.
  constexpr double kFirstWaitClocks = 167, kWaitClocks = 108, kMemoryWaitClocks = 680, kLineBytes = 128;
  // Code comes from memory; what a program is about as long as:
  constexpr double kCodeClocks = 2.67, kCodeOfLoad = 10, kMostCode = 2000;
  // Each row of tiles reads b anew; threads that go along lines which are longer than these many bytes have more of
  // them in hand than the nearest cache, so that they come several times.
  constexpr double kOperandBytesPerClock = 2700, kAgainBytesPerClock = 1860, kOutputBytesPerClock = 3070;
  constexpr std::int64_t kLongLineBytes = 64;
  constexpr double kReadsOfLongLines = 5;
  constexpr double kOtherRegisters = 30, kRegistersOfLoad = 2.2, kMostRegisters = 255, kRegisters = 65536;
  constexpr double kWarps = 64, kPrograms = 32;  // on a multiprocessor
  constexpr double kFewRounds = 4;               // up to which the last one counts as a whole

  const auto as_double = [](std::int64_t x) { return static_cast<double>(x); };
  const std::int64_t size = itemsize_bytes(call.a.dtype);
  const double threads = as_double(tiling.threads()), line_bytes = as_double(call.k * size);
  const std::int64_t block_m = std::min(tiling.block_m, floor_power_of_two(call.m)),
                     block_n = std::min(tiling.block_n, floor_power_of_two(call.n));
  const std::int64_t columns = std::max<std::int64_t>(block_n / tiling.threads(), 1),
                     rows = std::max<std::int64_t>(block_m * block_n / tiling.threads() / columns, 1);
  const double each = as_double(rows * columns), loads = as_double(rows + columns), unroll = as_double(tiling.unroll),
               steps = as_double(ceil_div(call.k, tiling.unroll));
  const std::int64_t tile_rows = ceil_div(call.m, block_m);
  const double each_processor =
      as_double(tile_rows * ceil_div(call.n, block_n) * call.batches()) / as_double(processors);
  const bool goes_across = order_of(call.b) != 0 && call.k > 1, has_long_lines = call.k * size > kLongLineBytes;

  const double across = goes_across ? as_double(columns) * kLoadAcross * std::min(line_bytes / kLineBytes, 1.0) : 0;
  const double instructions = kProgram + steps * unroll * (each * kProduct + loads * kLoad + across) + each * kOutput;
  const double registers = std::min(kOtherRegisters + each + unroll * loads * kRegistersOfLoad, kMostRegisters);
  const double resident = std::floor(
      std::clamp(std::min(kWarps / as_double(tiling.num_warps), kRegisters / (threads * registers)), 1.0, kPrograms));
  const double rounds = std::max(1.0, each_processor / resident);
  const double new_lines = goes_across ? std::min(unroll * as_double(size) / kLineBytes, 1.0) : 1;
  const double wait = kFirstWaitClocks + (kWaitClocks + kMemoryWaitClocks * new_lines) * (steps - 1) +
                      kCodeClocks * std::min(unroll * loads * kCodeOfLoad + each * kOutput, kMostCode);
  const double waits = (rounds < kFewRounds ? std::ceil(rounds) : rounds) * wait;
  const double work = each_processor * (threads * instructions / kInstructionsPerClock + kProgramClocks);
  const double m = as_double(call.m), n = as_double(call.n);
  double memory =
      m * line_bytes / kOperandBytesPerClock + m * n * as_double(itemsize_bytes(call.out.dtype)) / kOutputBytesPerClock;
  memory += goes_across && has_long_lines ? n * line_bytes * kReadsOfLongLines / kOperandBytesPerClock
                                          : n * line_bytes * as_double(tile_rows) / kAgainBytesPerClock;
  return kStartUs + std::max({waits + (rounds > 1 ? 0 : kClocksToOne * instructions), work + (rounds > 1 ? 0 : wait),
                              as_double(call.batches()) * memory}) /
                        kClocksPerUs;
}

}  // namespace

ConfigSpace thin_space() {
  const common::ConfigExpression elements = common::ConfigExpression("BLOCK_M") * "BLOCK_N",
                                 threads = kLanes * common::ConfigExpression("num_warps");
  return {{common::tunable("BLOCK_M", kBlockM), common::tunable("BLOCK_N", kBlockN), common::tunable("UNROLL", kUnroll),
           common::tunable("num_warps", kNumWarps)},
          {elements >= threads, elements <= kMostEach * threads, elements * "UNROLL" <= kMostLoaded * threads}};
}

EstimatedConfig thin_default(const MatmulCall& call, const Target& target) {
  constexpr std::int64_t kLeastColumns = kBlockN[1], kLeastSteps = kUnroll[1];
  const std::int64_t processors = usable_processors(call, target);
  // Tiles are no wider than the output, nor loaded for more of k than there is, but for the least ones; the most that
  // a tuner tries at once was never the fastest.
  const std::int64_t most_rows = floor_power_of_two(call.m),
                     most_columns = std::max(floor_power_of_two(call.n), kLeastColumns),
                     most_steps = std::clamp(ceil_power_of_two(call.k), kLeastSteps, kUnroll[3]);
  ThinTiling best{};
  double least_us = std::numeric_limits<double>::infinity();
  for (const std::int64_t block_n : kBlockN)
    for (const std::int64_t block_m : kBlockM)
      for (const std::int64_t unroll : kUnroll)
        for (const std::int64_t num_warps : kNumWarps) {
          const ThinTiling tiling{block_m, block_n, unroll, num_warps};
          const bool is_least = block_n == kLeastColumns && block_m * block_n <= kLanes * num_warps;
          if (block_n > most_columns || (block_m > most_rows && !is_least) || unroll > most_steps || !tiling.is_valid())
            continue;
          const double us = estimate_us(call, processors, tiling);
          if (us < least_us) least_us = us, best = tiling;
        }
  return {
      {{"BLOCK_M", best.block_m}, {"BLOCK_N", best.block_n}, {"UNROLL", best.unroll}, {"num_warps", best.num_warps}},
      least_us};
}

}  // namespace kiln::matmul
