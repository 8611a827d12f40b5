#include "ops/matmul/tiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "compiler/tl/cuda/pipeline_places.hpp"
#include "core/cpu_stack.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
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
    case OperandClass::f32:  // from sm_100 on ptxas takes more registers for both
    case OperandClass::i8:
      return target.arch.starts_with("sm_1") ? 64 : 128;
    default:
      return 128;
  }
}

std::int64_t accumulator_words(OperandClass operands, const Config& config) {
  const std::int64_t words = config.at("BLOCK_M") * config.at("BLOCK_N") * (operands == OperandClass::f64 ? 2 : 1);
  return words / (32 * config.at("num_warps"));
}

ConfigSpace cuda_space(OperandClass operands, const Target& target) {
  const std::int64_t room = machine_of(target).shared_bytes;
  const std::int64_t most_words = most_accumulator_words(operands, target);
  const bool is_wide = operands == OperandClass::f64;
  std::vector<std::int64_t> block_ks = {32, 64, 16};
  if (operands == OperandClass::f64 || operands == OperandClass::f32) block_ks = {16, 32};
  if (operand_bytes(operands) == 1) block_ks = {64, 128};
  std::vector<Tunable> tunables = {{"BLOCK_M", is_wide ? std::vector<std::int64_t>{64, 32, 128, 16}
                                                       : std::vector<std::int64_t>{128, 64, 32, 16, 256}},
                                   {"BLOCK_N", is_wide ? std::vector<std::int64_t>{64, 32, 128, 16}
                                                       : std::vector<std::int64_t>{128, 64, 32, 16, 256}},
                                   {"BLOCK_K", block_ks},
                                   {"NUM_STAGES", {3, 4}},
                                   {"GROUP_M", {8}},
                                   {"SPLIT_K", {1, 2, 4, 8, 16, 32, 64}},
                                   {"num_warps", {4, 8}}};
  const ConfigExpression words("words of accumulator to a thread",
                               [operands](const Config& config) { return accumulator_words(operands, config); });
  // Without what a tile's rows are padded by: the check counts that too.
  const ConfigExpression stages(fmt::format("NUM_STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * {}", operand_bytes(operands)),
                                [operands](const Config& config) { return matmul::shared_bytes(operands, config); });
  return {std::move(tunables),
          {stages <= room, words <= most_words,
           ConfigExpression("BLOCK_M") * "BLOCK_N" >= 512 * ConfigExpression("num_warps")}};
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
      return words >= 128 ? 105 : words >= 64 ? 85 : words >= 32 ? 70 : 55;
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

/// Bytes that the warps of a program read from shared memory for one step: of each, its rows of a and columns of b.
double bytes_read_by_warps(OperandClass operands, const Config& config) {
  std::int64_t m = config.at("BLOCK_M"), n = config.at("BLOCK_N");
  for (std::int64_t warps = config.at("num_warps"); warps > 1; warps /= 2) (n >= m ? n : m) /= 2;
  return static_cast<double>(config.at("num_warps") * (m + n) * config.at("BLOCK_K") * operand_bytes(operands));
}

/// Clocks that the portable kernel takes on a GPU: steps of multiplying, of reading shared memory (which overlaps in
/// part) and of what one program waits for and others fill, or of bringing operands in from the L2 where that takes
/// longer; programs are dealt out evenly. The constants fit 4096^3 of bf16 and f32 on an H200 within a tenth for every
/// tile that comes near the best.
double cuda_clocks(OperandClass operands, const MatmulCall& call, const Config& config, const Machine& machine,
                   std::int64_t processors) {
  constexpr double kSharedBytesPerClock = 128, kSharedShare = 0.4;
  constexpr double kL2BytesPerClock = 48;        // of one multiprocessor
  constexpr double kMemoryBytesPerClock = 2400;  // of all
  constexpr double kStepClocks = 60, kWaitClocks = 300;
  constexpr double kProgramClocks = 1800;  // until the first operands are there, and for the epilogue
  constexpr double kCombineClocks = 5000;  // a second kernel
  constexpr std::int64_t kRegisters = 65536, kOtherRegisters = 90;
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N"), block_k = config.at("BLOCK_K");
  const std::int64_t words = accumulator_words(operands, config);
  const KSplit split = split_k(call, config);
  const std::int64_t programs =
      ceil_div(call.m, block_m) * ceil_div(call.n, block_n) * call.batches() * split.num_splits;
  const std::int64_t rounds = ceil_div(programs, processors);
  const std::int64_t resident =
      std::min({rounds, (machine.shared_bytes + 1024) / (shared_bytes(operands, config) + 1024),
                kRegisters / (32 * config.at("num_warps") * (words + kOtherRegisters))});
  const auto sharing = static_cast<double>(std::max<std::int64_t>(resident, 1));

  const double multiplying = static_cast<double>(block_m * block_n * block_k) / products_per_clock(operands, words);
  const double reading =
      operands == OperandClass::f32 ? 0 : kSharedShare * bytes_read_by_warps(operands, config) / kSharedBytesPerClock;
  const double loading =
      static_cast<double>((block_m + block_n) * block_k * operand_bytes(operands)) / kL2BytesPerClock;
  const double step = std::max(multiplying + reading, loading) + kStepClocks + kWaitClocks / (sharing * sharing);
  const double steps = static_cast<double>(ceil_div(split.k_per_split, block_k));
  double clocks = static_cast<double>(rounds) * (steps * step + kProgramClocks / sharing);
  if (split.num_splits > 1) {
    const double partial_bytes = static_cast<double>(call.m * call.n * call.batches() * 4 * split.num_splits);
    clocks += kCombineClocks + 2 * partial_bytes / kMemoryBytesPerClock;
  }
  return clocks;
}

/// Tiles worth considering, of every aspect; larger ones first, which win ties.
std::vector<Config> cuda_candidates(OperandClass operands) {
  struct Tile {
    std::int64_t m, n, num_warps;
  };
  constexpr Tile kTiles[] = {{128, 128, 4}, {128, 256, 8}, {256, 128, 8}, {128, 128, 8}, {128, 64, 4}, {64, 128, 4},
                             {64, 256, 4},  {256, 64, 4},  {64, 64, 4},   {32, 128, 4},  {128, 32, 4}, {32, 64, 4},
                             {64, 32, 4},   {16, 256, 4},  {16, 128, 4},  {128, 16, 4}};
  const std::int64_t block_k = operand_bytes(operands) <= 2 ? 64 : operands == OperandClass::f64 ? 16 : 32;
  std::vector<Config> configs;
  for (const Tile& tile : kTiles)
    for (const std::int64_t split : {1, 2, 4, 8, 16})
      configs.push_back({{"BLOCK_M", tile.m},
                         {"BLOCK_N", tile.n},
                         {"BLOCK_K", block_k},
                         {"NUM_STAGES", 3},
                         {"GROUP_M", 8},
                         {"SPLIT_K", split},
                         {"num_warps", tile.num_warps}});
  return configs;
}

/// Whether a candidate is a config of the space: the larger tiles are not there for all operands and GPUs.
bool contains(const ConfigSpace& space, const Config& config) {
  return std::all_of(space.tunables().begin(), space.tunables().end(),
                     [&](const Tunable& tunable) {
                       return std::find(tunable.values.begin(), tunable.values.end(), config.at(tunable.name)) !=
                              tunable.values.end();
                     }) &&
         std::all_of(space.constraints().begin(), space.constraints().end(),
                     [&](const Constraint& constraint) { return constraint.holds(config); });
}

Config cuda_tiling(const MatmulCall& call, const Target& target) {
  const OperandClass operands = operand_class(call, target);
  const Machine machine = machine_of(target);
  const std::int64_t processors = call.processors > 0 ? call.processors : machine.processors;
  const ConfigSpace space = tile_space(operands, target);
  Config best;
  double least = std::numeric_limits<double>::infinity();
  for (const Config& config : cuda_candidates(operands)) {
    if (!contains(space, config)) continue;
    // With more tiles than that the last round is a small part, and splitting costs memory.
    const std::int64_t tiles =
        ceil_div(call.m, config.at("BLOCK_M")) * ceil_div(call.n, config.at("BLOCK_N")) * call.batches();
    if (config.at("SPLIT_K") > 1 && tiles > 2 * processors) continue;
    const double clocks = cuda_clocks(operands, call, config, machine, usable_processors(call, target));
    if (clocks < least) {
      least = clocks;
      best = config;
    }
  }
  return best;
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

Config default_tiling(const MatmulCall& call, const Target& target) {
  return is_cuda(target) ? cuda_tiling(call, target) : cpu_tiling(call);
}

std::int64_t shared_bytes(OperandClass operands, const Config& config) {
  const auto extent = [&](std::string_view name) { return static_cast<int>(config.at(name)); };
  const int block_m = extent("BLOCK_M"), block_n = extent("BLOCK_N"), block_k = extent("BLOCK_K");
  const int stages = extent("NUM_STAGES");
  if (operands == OperandClass::f32)
    return tl::pipeline_shared_bytes(stages, tl::padded_tile_bytes(block_k, block_m),
                                     tl::padded_tile_bytes(block_k, block_n));
  const int size = static_cast<int>(operand_bytes(operands));
  return tl::pipeline_shared_bytes(stages, tl::shared_tile_bytes(block_m, block_k, size),
                                   tl::shared_tile_bytes(block_k, block_n, size));
}

KSplit split_k(const MatmulCall& call, const Config& config) {
  const std::int64_t block_k = config.at("BLOCK_K");
  const std::int64_t blocks = ceil_div(call.k, block_k);
  // A program of few steps does not fill its pipeline; and with few processors given there is nothing to fill.
  const std::int64_t wanted =
      call.num_sms > 0 ? 1 : std::clamp<std::int64_t>(config.at("SPLIT_K"), 1, std::max<std::int64_t>(blocks, 1));
  const std::int64_t per_split = ceil_div(blocks, wanted) * block_k;
  if (per_split == 0 || per_split >= call.k) return {1, call.k};
  return {ceil_div(call.k, per_split), per_split};
}

}  // namespace kiln::matmul
