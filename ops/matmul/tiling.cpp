#include "ops/matmul/tiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/tl/cuda/pipeline_places.hpp"
#include "core/cpu_stack.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/iteration.hpp"
#include "ops/matmul/machine.hpp"

namespace kiln::matmul {
namespace {

using common::ConfigExpression;

/// Words of accumulator that a thread may hold; the rest of 255 registers is for operands and addresses.
std::int64_t most_accumulator_words(OperandClass operands, const Target& target) {
  switch (operands) {
    case OperandClass::f64:  // an activation in double takes many
    case OperandClass::fp8:  // becomes f16 in registers
      return 64;
    case OperandClass::f32:  // from sm_100 on ptxas takes more registers
      return target.arch.starts_with("sm_1") ? 64 : 128;
    case OperandClass::i8:  // as it does of these elsewhere too, where gelu is behind them
      return target.arch.starts_with("sm_9") ? 128 : 64;
    default:
      return 128;
  }
}

std::int64_t accumulator_words(OperandClass operands, std::int64_t block_m, std::int64_t block_n,
                               std::int64_t num_warps) {
  return block_m * block_n * (operands == OperandClass::f64 ? 2 : 1) / (32 * num_warps);
}

/// Two programs of 8 warps on a multiprocessor leave 128 registers to a thread, of which sums take 64. Products of
/// warpgroups leave room for 128 x 128 tiles in steps of 32; larger steps spill 4 to 32 bytes (linear with gelu and a
/// bias of f32 on sm_90a, where nearly all calls take kernel_sm90.cuh). A tile's place that is found again behind the
/// loop would leave spills in three of seven such configs.
constexpr std::int64_t kMostStepOfFullPair = 8192;

bool has_small_steps(OperandClass operands, const Target& target) {
  return operands == OperandClass::half && target.arch.starts_with("sm_9");
}

/// Elements that a step loads, of programs of 8 warps that have 64 words of sums to a thread; 0 of others.
std::int64_t step_of_full_pair(std::int64_t block_m, std::int64_t block_n, std::int64_t block_k,
                               std::int64_t num_warps) {
  const bool is_full = num_warps == 8 && accumulator_words(OperandClass::half, block_m, block_n, num_warps) == 64;
  return is_full ? (block_m + block_n) * block_k : 0;
}

/// Parts of k. Kernels do not depend on them, and programs that just fill a GPU's rounds want them fine: the finest
/// where the estimate is good enough to tell them apart. Among tensor cores' tiles one of more numbers looks better
/// than it is: with 7 parts 4638x16384' by 16384x2 took 120 us, torch 76.
constexpr std::int64_t kSplits[] = {1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256};
constexpr std::int64_t kFmaSplits[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,   10,  12,
                                       16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256};

std::span<const std::int64_t> splits_of(OperandClass operands) {
  if (operands == OperandClass::f32) return kFmaSplits;
  return kSplits;
}

std::vector<std::int64_t> block_ks(OperandClass operands) {
  if (operands == OperandClass::f64 || operands == OperandClass::f32) return {16, 32};
  if (operand_bytes(operands) == 1) return {64, 128};
  return {32, 64, 16};
}

/// Shared memory of a pipeline's stages.
std::int64_t stage_bytes(OperandClass operands, std::int64_t block_m, std::int64_t block_n, std::int64_t block_k,
                         std::int64_t num_stages) {
  const auto extent = [](std::int64_t x) { return static_cast<int>(x); };
  const int m = extent(block_m), n = extent(block_n), k = extent(block_k), stages = extent(num_stages);
  if (operands == OperandClass::f32)
    return tl::pipeline_shared_bytes(stages, tl::padded_tile_bytes(k, m), tl::padded_tile_bytes(k, n));
  const int size = extent(operand_bytes(operands));
  return tl::pipeline_shared_bytes(stages, tl::shared_tile_bytes(m, k, size), tl::shared_tile_bytes(k, n, size));
}

/// k in so many parts at most, each of whole blocks.
ConfigSpace cuda_space(OperandClass operands, const Target& target) {
  const std::int64_t room = machine_of(target).shared_bytes;
  const std::int64_t most_words = most_accumulator_words(operands, target);
  const bool is_wide = operands == OperandClass::f64;
  const std::span<const std::int64_t> splits = splits_of(operands);
  std::vector<Tunable> tunables = {{"BLOCK_M", is_wide ? std::vector<std::int64_t>{64, 32, 128, 16}
                                                       : std::vector<std::int64_t>{128, 64, 32, 16, 256}},
                                   {"BLOCK_N", is_wide ? std::vector<std::int64_t>{64, 32, 128, 16}
                                                       : std::vector<std::int64_t>{128, 64, 32, 16, 256}},
                                   {"BLOCK_K", block_ks(operands)},
                                   {"NUM_STAGES", {3, 4}},
                                   {"GROUP_M", {8}},
                                   {"SPLIT_K", {splits.begin(), splits.end()}},
                                   {"num_warps", {4, 8}}};
  const ConfigExpression words("words of accumulator to a thread", [operands](const Config& config) {
    return accumulator_words(operands, config.at("BLOCK_M"), config.at("BLOCK_N"), config.at("num_warps"));
  });
  // Without what a tile's rows are padded by: the check counts that too.
  const ConfigExpression stages(fmt::format("NUM_STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * {}", operand_bytes(operands)),
                                [operands](const Config& config) { return matmul::shared_bytes(operands, config); });
  std::vector<Constraint> constraints = {
      stages <= room, words <= most_words,
      ConfigExpression("BLOCK_M") * "BLOCK_N" >= 512 * ConfigExpression("num_warps")};
  // Behind sums of 64 words ptxas spills 24 bytes of it: linear with gelu in 128 x 64 x 32, 8 warps, on sm_90a.
  if (is_wide)
    constraints.push_back(ConfigExpression("BLOCK_M * BLOCK_K of 64 words of accumulator to a thread",
                                           [operands, most_words](const Config& config) {
                                             const bool is_full =
                                                 accumulator_words(operands, config.at("BLOCK_M"), config.at("BLOCK_N"),
                                                                   config.at("num_warps")) == most_words;
                                             return is_full ? config.at("BLOCK_M") * config.at("BLOCK_K") : 0;
                                           }) <= 2048);
  if (has_small_steps(operands, target))
    constraints.push_back(ConfigExpression("(BLOCK_M + BLOCK_N) * BLOCK_K of 64 words of accumulator in 8 warps",
                                           [](const Config& config) {
                                             return step_of_full_pair(config.at("BLOCK_M"), config.at("BLOCK_N"),
                                                                      config.at("BLOCK_K"), config.at("num_warps"));
                                           }) <= kMostStepOfFullPair);
  return {std::move(tunables), std::move(constraints)};
}

ConfigSpace cpu_space(OperandClass operands) {
  // The accumulator, the result that it becomes, what is added to it and both as they are stored lie on the stack at
  // once.
  constexpr std::int64_t kMostAccumulatorBytes = kMostCpuKernelStackBytes / 5;
  const std::int64_t accumulator_bytes = operands == OperandClass::f64 ? 8 : 4;
  return {{{"BLOCK_M", {256, 128, 64, 32, 16, 512}},
           {"BLOCK_N", {128, 256, 64, 32, 16}},
           {"BLOCK_K", {128, 256, 64, 32}},
           {"SPLIT_K", {1, 2, 4, 8}}},
          {ConfigExpression("BLOCK_M") * "BLOCK_N" <= kMostAccumulatorBytes / accumulator_bytes}};
}

/// Multiply-adds that one multiprocessor completes in a clock when nothing holds it up; `words` of accumulator to a
/// thread. f32 takes its operands from shared memory for every product: the fewer, the larger a thread's part is.
double products_per_clock(OperandClass operands, std::int64_t words) {
  switch (operands) {
    case OperandClass::f64:
      return 128;
    case OperandClass::f32:
      return words >= 128 ? 109 : words >= 64 ? 94 : words >= 32 ? 84 : 60;
    case OperandClass::tf32:
    case OperandClass::fp8:  // converted to f16 on the way
      return 550;
    case OperandClass::half:
      return 1100;
    case OperandClass::i8:
      break;
  }
  return 2200;
}

/// The portable kernel's config on a GPU.
struct PortableTile {
  std::int64_t block_m, block_n, block_k, stages, split, num_warps;

  Config config() const {
    return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"BLOCK_K", block_k},    {"NUM_STAGES", stages},
            {"GROUP_M", 8},       {"SPLIT_K", split},   {"num_warps", num_warps}};
  }
};

/// Bytes that the warps of a program read from shared memory for one step: of each, its rows of a and columns of b.
double bytes_read_by_warps(OperandClass operands, const PortableTile& tile) {
  std::int64_t m = tile.block_m, n = tile.block_n;
  for (std::int64_t warps = tile.num_warps; warps > 1; warps /= 2) (n >= m ? n : m) /= 2;
  return static_cast<double>(tile.num_warps * (m + n) * tile.block_k * operand_bytes(operands));
}

/// Whether threads copy an operand element by element, and wait for what they copy.
bool is_waited_for(OperandClass operands, const Matrix& matrix) {
  const std::int64_t order = order_of(matrix);
  const std::int64_t line = order == 0 ? matrix.row_stride : matrix.column_stride;
  return operands != OperandClass::f32 && (order == 2 || line * operand_bytes(operands) % 4 != 0);
}

/// Of `extent` in blocks, the share of blocks that reach over its end.
double share_at_end(std::int64_t extent, std::int64_t block) {
  return extent % block == 0 ? 0 : 1 / static_cast<double>(ceil_div(extent, block));
}

/// Whether out is stored element by element.
bool is_stored_singly(const Matrix& out) {
  return order_of(out) != 0 || out.row_stride * itemsize_bytes(out.dtype) % 16 != 0;
}

/// Rates of one multiprocessor, and clocks of one program, that differ between the units that multiply.
struct UnitCosts {
  double edge_bytes_per_clock, stores_per_clock, single_stores_per_clock, stores_of_warp_per_clock;
  double step_clocks;     ///< a step's barriers
  double exposed_stores;  ///< how often nothing else goes on while a program that is alone stores
  // Of tiles of most sums by four warps (f32): times as long where there is one warp to a scheduler, and what a round
  // of them takes more (measured, not explained).
  double lone_program, large_round_clocks;
};
constexpr UnitCosts kTensorCores{1 / 0.0178, 5.2, 1.5, 1.1, 920, 0, 1, 0};
constexpr UnitCosts kFma{170, 12, 7, 3, 450, 2, 1.3, 4000};

/// Whether an operand of FMA that lies across k comes by fewer than 16 bytes. (Along k it always does, to be turned:
/// that is in the rest.)
bool comes_by_words(const Matrix& matrix, std::int64_t line_stride) {
  return !matrix.starts_packet || line_stride % 4 != 0;
}

/// What the portable kernel takes on a GPU. A multiprocessor has some programs at a time: they take the longer of what
/// one of them waits for and of what all of them do. The constants are those of the least squares of the logarithms of
/// 1100 times of random products on an H200 (2026-11-25), whose residuals have a deviation of 0.18; those of FMA of 614
/// times of 41 others (benchmarks/models/2026-11-28-h200-f32.json without whole addends), of 0.12.
double tile_us(OperandClass operands, const MatmulCall& call, const PortableTile& tile, const Machine& machine,
               std::int64_t processors) {
  constexpr double kStartUs = 4.0;
  constexpr double kCombineUs = 3.5, kCombinedPartUs = 0.06;
  constexpr double kMemoryBytesPerClock = 1940;  // of all
  // Of one multiprocessor:
  constexpr double kSharedBytesPerClock = 128 / 0.176;  // most of which overlaps with multiplying
  constexpr double kL2BytesPerClock = 12.7, kSingleElementsPerClock = 8.2, kWordsPerClock = 1 / 0.024;
  constexpr double kWholeAddendsPerClock = 2.1;
  // Clocks of one program:
  constexpr double kLoadClocks = 385;    // shared by the stages that are on their way
  constexpr double kSingleClocks = 210;  // a step's waits for single elements
  constexpr double kSinglesOfWarpPerClock = 3.4;
  constexpr double kProgramClocks = 310;
  // Of 2-byte operands, in tiles of more rows than kLowTile. Measured, not explained: of 210 products that take less
  // than 15 us those of 64 and 128 rows take a sixth longer than the rest of this says, those of 16 and 32 do not.
  constexpr double kManyRowsClocks = 1200;
  constexpr std::int64_t kLowTile = 32;
  constexpr std::int64_t kRegisters = 65536, kOtherRegisters = 90;
  const auto as_double = [](std::int64_t x) { return static_cast<double>(x); };
  const bool is_fma = operands == OperandClass::f32;
  const UnitCosts& unit = is_fma ? kFma : kTensorCores;

  const std::int64_t words = accumulator_words(operands, tile.block_m, tile.block_n, tile.num_warps);
  const bool is_large = tile.num_warps == 4 && words >= 128;
  const KSplit split = split_k(call, tile.block_k, tile.split);
  const std::int64_t programs =
      ceil_div(call.m, tile.block_m) * ceil_div(call.n, tile.block_n) * call.batches() * split.num_splits;
  const std::int64_t rounds = ceil_div(programs, processors);
  const std::int64_t resident = std::max<std::int64_t>(
      std::min({rounds,
                (machine.shared_bytes + 1024) /
                    (stage_bytes(operands, tile.block_m, tile.block_n, tile.block_k, tile.stages) + 1024),
                kRegisters / (32 * tile.num_warps * (words + kOtherRegisters))}),
      1);

  const std::int64_t steps = ceil_div(split.k_per_split, tile.block_k);
  const double k_at_end = share_at_end(split.k_per_split, tile.block_k);
  double singles = 0, edge_bytes = 0, copied_words = 0;
  const auto add_operand = [&](const Matrix& matrix, std::int64_t extent, std::int64_t block) {
    const double elements = as_double(block * tile.block_k);
    if (is_waited_for(operands, matrix))
      singles += elements;
    else
      edge_bytes += elements * as_double(operand_bytes(operands)) * std::max(share_at_end(extent, block), k_at_end);
  };
  add_operand(call.a, call.m, tile.block_m);
  add_operand(call.b, call.n, tile.block_n);
  if (is_fma && order_of(call.a) == 1 && comes_by_words(call.a, call.a.column_stride))
    copied_words += as_double(tile.block_m * tile.block_k);
  if (is_fma && order_of(call.b) == 0 && comes_by_words(call.b, call.b.row_stride))
    copied_words += as_double(tile.block_n * tile.block_k);
  const double multiplying =
      as_double(tile.block_m * tile.block_n * tile.block_k) / products_per_clock(operands, words);
  const double reading = is_fma ? 0 : bytes_read_by_warps(operands, tile) / kSharedBytesPerClock;
  const double loading =
      as_double((tile.block_m + tile.block_n) * tile.block_k * operand_bytes(operands)) / kL2BytesPerClock;
  const double working = std::max(multiplying + reading, loading) + singles / kSingleElementsPerClock +
                         edge_bytes / unit.edge_bytes_per_clock + copied_words / kWordsPerClock;
  const double waiting =
      std::max(working * (is_large ? unit.lone_program : 1), kLoadClocks / as_double(tile.stages - 1)) +
      unit.step_clocks +
      (singles > 0 ? kSingleClocks + singles / (as_double(tile.num_warps) * kSinglesOfWarpPerClock) : 0);
  const double stores = as_double(tile.block_m * tile.block_n);
  const bool is_last = split.num_splits == 1;
  const double storing =
      stores / (is_last && is_stored_singly(call.out) ? unit.single_stores_per_clock : unit.stores_per_clock) +
      (is_last && call.addend_kind() == ops::kFullAddend ? stores / kWholeAddendsPerClock : 0);

  const double work_of_program = as_double(steps) * working + storing + kProgramClocks;
  const double time_at_end = storing + stores / (as_double(tile.num_warps) * unit.stores_of_warp_per_clock) +
                             (operands == OperandClass::half && tile.block_m > kLowTile ? kManyRowsClocks : 0);
  const double time_of_program = as_double(steps) * waiting + time_at_end;
  const auto clocks_of = [&](std::int64_t together) {
    return together == 0
               ? 0
               : std::max(as_double(together) * work_of_program, time_of_program) +
                     unit.exposed_stores / as_double(together) * time_at_end + (is_large ? unit.large_round_clocks : 0);
  };
  const double clocks = as_double(rounds / resident) * clocks_of(resident) + clocks_of(rounds % resident);
  const double elements = as_double(call.batches()) *
                          (as_double(call.m + call.n) * as_double(call.k) + as_double(call.m) * as_double(call.n));
  const double memory = elements * as_double(operand_bytes(operands)) / kMemoryBytesPerClock;
  double us = kStartUs + std::max(clocks, memory) / kClocksPerUs;
  if (split.num_splits > 1)
    us += kCombineUs + kCombinedPartUs * as_double(split.num_splits) +
          2 * as_double(call.m * call.n * call.batches() * 4 * split.num_splits) / kMemoryBytesPerClock / kClocksPerUs;
  return us;
}

/// Blocks of k that may be the best for a call, deeper ones first, which win ties.
std::vector<std::int64_t> likely_block_ks(OperandClass operands, std::int64_t k) {
  if (operands == OperandClass::f64) return {16};
  if (operand_bytes(operands) == 1) return {64};
  std::vector<std::int64_t> depths = block_ks(operands);
  std::sort(depths.begin(), depths.end());
  // The tensor cores' operands lost by shallow ones even where they waste less of the last step: 17x482x29 took twice
  // as long as cuBLAS.
  // Of f32 they win where k is short; where it is longer they seldom do, and are underrated.
  constexpr std::int64_t kMostOfShallowSteps = 512;
  if (operands == OperandClass::f32 && k > depths.front() && k <= kMostOfShallowSteps)
    return {depths.rbegin(), depths.rend()};
  // Steps of tf32 are twice as many bytes: fewer of them go on at a time.
  if (operands == OperandClass::tf32 && k > depths.back() / 2) return {64, 32};
  const auto all_of_k = std::lower_bound(depths.begin(), depths.end(), k);
  return {all_of_k == depths.end() ? depths.back() : *all_of_k};
}

/// Parts of k that are looked at for so many tiles. Of many the last round is a small part, and splitting costs memory,
/// which multiply-adds have more time for: 9024x8192 by 8192x512' takes 12 parts of 284 tiles 15% faster than 3.
std::int64_t most_splits(OperandClass operands, std::int64_t tiles, std::int64_t processors) {
  const bool is_slow = operands == OperandClass::f32;
  if (tiles > 8 * processors) return is_slow ? 4 : 1;
  if (tiles > 2 * processors) return is_slow ? 16 : 3;
  return std::max<std::int64_t>(64, 8 * processors / std::max<std::int64_t>(tiles, 1));
}

/// The tile of the least estimate, and that.
std::pair<PortableTile, double> best_tile(const MatmulCall& call, const Target& target) {
  struct Shape {
    std::int64_t m, n, num_warps;
  };
  // Of every aspect; larger ones first, which win ties.
  constexpr Shape kShapes[] = {{128, 128, 4}, {128, 256, 8}, {256, 128, 8}, {128, 128, 8}, {128, 64, 4}, {64, 128, 4},
                               {64, 256, 4},  {256, 64, 4},  {64, 64, 4},   {32, 128, 4},  {128, 32, 4}, {32, 64, 4},
                               {64, 32, 4},   {16, 256, 4},  {16, 128, 4},  {128, 16, 4},  {128, 64, 8}, {64, 128, 8},
                               {64, 64, 8},   {128, 32, 8},  {32, 128, 8}};
  const OperandClass operands = operand_class(call, target);
  const Machine machine = machine_of(target);
  const std::int64_t all_processors = call.processors > 0 ? call.processors : machine.processors;
  const std::int64_t processors = usable_processors(call, target);
  constexpr std::int64_t kMostExtentOfF64 = 128;  // see cuda_space
  constexpr double kDoubt = 1.04;  // of so many numbers of parts one looks good by the estimate's error alone
  PortableTile best{};
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t block_k : likely_block_ks(operands, call.k)) {
    // Of 43 products of f32 the best config with steps of 32 took 1.6% longer than the best of those and of shallow
    // ones in four stages. 128 x 128 sums lose 8% by shallow steps where k is more than a few of them.
    const bool is_shallow = operands == OperandClass::f32 && block_k == 16;
    const std::int64_t stages = is_shallow ? 4 : 3;
    for (const Shape& shape : kShapes) {
      const std::int64_t words = accumulator_words(operands, shape.m, shape.n, shape.num_warps);
      if (words > most_accumulator_words(operands, target) || (is_shallow && call.k > 4 * block_k && words >= 128) ||
          shape.m * shape.n < 512 * shape.num_warps ||
          (operands == OperandClass::f64 && std::max(shape.m, shape.n) > kMostExtentOfF64) ||
          (has_small_steps(operands, target) &&
           step_of_full_pair(shape.m, shape.n, block_k, shape.num_warps) > kMostStepOfFullPair) ||
          stage_bytes(operands, shape.m, shape.n, block_k, stages) > machine.shared_bytes)
        continue;
      const std::int64_t tiles = ceil_div(call.m, shape.m) * ceil_div(call.n, shape.n) * call.batches();
      for (const std::int64_t split : splits_of(operands)) {
        if (split > most_splits(operands, tiles, all_processors)) break;
        const PortableTile tile{shape.m, shape.n, block_k, stages, split, shape.num_warps};
        const double us = tile_us(operands, call, tile, machine, processors) * (split > 1 ? kDoubt : 1);
        if (us < least) {
          least = us;
          best = tile;
        }
      }
    }
  }
  return {best, least};
}

/// b is packed once for each program, so the rows of a tile share that work: 256 rows reach 0.97 to 1.0 of what 512 do,
/// 128 rows 0.93, 64 rows 0.85, for operands of any type (measured with AVX-512 at 512 to 2048 on a side). Two hundred
/// kilobytes of accumulator and panels stay in a core's own cache. Few programs are made smaller, for threads to share.
Config cpu_tiling(const MatmulCall& call) {
  std::int64_t block_m = std::clamp<std::int64_t>(ceil_power_of_two(call.m), 16, 256);
  const std::int64_t block_n = std::clamp<std::int64_t>(ceil_power_of_two(call.n), 16, 128);
  const std::int64_t block_k = std::clamp<std::int64_t>(ceil_power_of_two(call.k), 32, 128);
  const auto programs = [&] { return ceil_div(call.m, block_m) * ceil_div(call.n, block_n) * call.batches(); };
  while (programs() < 8 && block_m > 64) block_m /= 2;
  std::int64_t split = 1;
  while (split < 8 && programs() * split < 8 && call.k / (split * 2) >= 1024) split *= 2;
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"BLOCK_K", block_k}, {"SPLIT_K", split}};
}

}  // namespace

OperandClass operand_class(const MatmulCall& call, const Target& target) {
  switch (itemsize_bytes(call.a.dtype)) {
    case 8:
      return OperandClass::f64;
    case 4:
      return call.tf32 && is_cuda(target) ? OperandClass::tf32 : OperandClass::f32;
    case 2:
      return OperandClass::half;
    default:
      return is_fp8(call.a.dtype) ? OperandClass::fp8 : OperandClass::i8;
  }
}

std::int64_t operand_bytes(OperandClass operands) {
  switch (operands) {
    case OperandClass::f64:
      return 8;
    case OperandClass::f32:
    case OperandClass::tf32:
      return 4;
    case OperandClass::half:
      return 2;
    case OperandClass::fp8:
    case OperandClass::i8:
      break;
  }
  return 1;
}

std::string variant_name(OperandClass operands) {
  constexpr std::string_view kNames[] = {"tile_f64", "tile_f32", "tile_tf32", "tile_half", "tile_fp8", "tile_i8"};
  return std::string(kNames[static_cast<std::size_t>(operands)]);
}

ConfigSpace tile_space(OperandClass operands, const Target& target) {
  return is_cuda(target) ? cuda_space(operands, target) : cpu_space(operands);
}

EstimatedConfig default_tiling(const MatmulCall& call, const Target& target) {
  if (!is_cuda(target)) return {cpu_tiling(call), std::nullopt};
  const auto [tile, us] = best_tile(call, target);
  return {tile.config(), us};
}

std::int64_t shared_bytes(OperandClass operands, const Config& config) {
  return stage_bytes(operands, config.at("BLOCK_M"), config.at("BLOCK_N"), config.at("BLOCK_K"),
                     config.at("NUM_STAGES"));
}

KSplit split_k(const MatmulCall& call, std::int64_t block_k, std::int64_t most_splits) {
  const std::int64_t blocks = ceil_div(call.k, block_k);
  // A program of few steps does not fill its pipeline; and with few processors given there is nothing to fill.
  const std::int64_t wanted =
      call.num_sms > 0 ? 1 : std::clamp<std::int64_t>(most_splits, 1, std::max<std::int64_t>(blocks, 1));
  const std::int64_t per_split = ceil_div(blocks, wanted) * block_k;
  if (per_split == 0 || per_split >= call.k) return {1, call.k};
  return {ceil_div(call.k, per_split), per_split};
}

KSplit split_k(const MatmulCall& call, const Config& config) {
  return split_k(call, config.at("BLOCK_K"), config.at("SPLIT_K"));
}

}  // namespace kiln::matmul
