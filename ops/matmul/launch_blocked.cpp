#include "ops/matmul/launch_blocked.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "core/cpu_features.hpp"
#include "core/cpu_stack.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/exchange.hpp"
#include "ops/matmul/tiling.hpp"

namespace kiln::matmul {
namespace {

/// Programs that are enough for threads to share evenly.
constexpr std::int64_t kEnoughPrograms = 8;

/// Panels of this size stay in a core's own cache.
constexpr std::int64_t kCachedBytes = 512 << 10;
/// Columns of b that a program packs for all.
constexpr std::int64_t kPackedColumns = 128;

/// Rows that one program takes whole; half as many of f64.
std::int64_t most_block_m(const MatmulCall& call) {
  return call.accumulator == DType::f64 ? 192 : 384;
}

/// What operands are packed as: the sums' type, or narrower numbers of which the CPU multiplies a word at a time
/// (compiler/tl/cpu/word_block.hpp). fp8 is exact in bf16, and so is i8 in i16. i32 sums of packed i8 are exact; in
/// float they are not, so that other CPUs than these leave integers to the tile kernel: none for them.
std::optional<DType> packed_dtype(const MatmulCall& call, const Target& target) {
  const auto has = [&](std::string_view feature) { return has_feature(target.features, feature); };
  const bool is_wide = has("+avx512f");
  if (call.accumulator == DType::i32) {
    if (is_wide ? has("+avx512vnni") : has("+avxvnni")) return DType::i8;
    if (is_wide ? has("+avx512bw") : has("+avx2")) return DType::i16;
    return std::nullopt;
  }
  const bool fits_bf16 = call.a.dtype == DType::bf16 || is_fp8(call.a.dtype);
  return fits_bf16 && has("+avx512bf16") ? DType::bf16 : call.accumulator;
}

/// Whether narrow operands have so few rows that matmul_rows_kernel, which widens b where it is read, is done before a
/// panel is packed: twice to four times as fast.
bool is_for_rows(const MatmulCall& call) {
  return call.a.dtype != call.accumulator && call.m <= 4 && order_of(call.b) != 2 && call.num_sms == 0;
}

/// A program's sums, rows of a and panels of b lie on the stack, at `item_bytes` each. Those of batches are never made
/// for all programs.
ConfigSpace blocked_space(std::int64_t item_bytes) {
  using common::ConfigExpression;
  const ConfigExpression m("BLOCK_M"), n("BLOCK_N"), k("BLOCK_K");
  return {{{"ROWS", {8, 6, 12}},
           {"BLOCK_M", {192, 96, 48, 384, 24}},
           {"BLOCK_N", {512, 1024, 256, 128, 64, 32}},
           {"BLOCK_K", {256, 384, 128}},
           {"PACK_A", {1, 0}},
           {"SPLIT_K", {1, 2, 4, 8}},
           {"SHARED_PANELS", {0, 1}}},
          {m * n + m * k + n * k <= kMostCpuKernelStackBytes * 7 / 8 / item_bytes}};
}

LaunchPlan blocked_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const std::int64_t width = 2 * cpu_vector_bytes(target.features) / itemsize_bytes(call.accumulator);
  const DType packed = packed_dtype(call, target).value();
  // Of narrow numbers as many bytes of k.
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N");
  const std::int64_t block_k = config.at("BLOCK_K") * itemsize_bytes(call.accumulator) / itemsize_bytes(packed);
  const KSplit split = split_k(call, config);
  // Panels for all programs have all of k.
  const bool shares_panels = config.at("SHARED_PANELS") != 0 && call.batch_extents.empty() && split.num_splits == 1;
  // Blocks of rows that are read where they lie have all their rows.
  const bool packs_a = config.at("PACK_A") != 0 || order_of(call.a) != 0 || call.a.dtype != call.accumulator ||
                       call.m < config.at("ROWS");
  const ops::MatmulIteration it = make_iteration(call, block_m, block_n, split, target);

  LaunchPlan plan;
  if (shares_panels) {
    const std::int64_t panels = ceil_div(call.n, width);
    plan.workspace_bytes.push_back(panels * width * ceil_div(call.k, ops::kPanelRows) * ops::kPanelRows *
                                   itemsize_bytes(packed));
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.kernel = "kiln::ops::matmul_panels_kernel";
    launch.template_arguments = {order_of(call.b), width, kPackedColumns, block_k, call.b.dtype, packed};
    launch.geometry.grid = {ceil_div(call.n, kPackedColumns), ceil_div(call.k, block_k), 1};
    common::KernelParameters(launch).read(call.b.tensor, call.b.dtype).written_workspace(0, packed).value(it);
  }
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments.emplace_back(first_argument(call, split));
  for (const std::int64_t number : {order_of(call.a), order_of(call.b), split.num_splits == 1 ? order_of(call.out) : 0,
                                    config.at("ROWS"), width, block_m, block_n, block_k})
    launch.template_arguments.emplace_back(number);
  for (const bool flag : {packs_a, shares_panels, !call.batch_extents.empty()})
    launch.template_arguments.emplace_back(flag);
  for (const DType dtype : {packed, call.a.dtype, shares_panels ? packed : call.b.dtype})
    launch.template_arguments.emplace_back(dtype);
  common::KernelParameters parameters(launch);
  parameters.read(call.a.tensor, call.a.dtype);
  if (shares_panels)
    parameters.read_workspace(0, packed);
  else
    parameters.read(call.b.tensor, call.b.dtype);
  launch.geometry.grid = {it.tiles, split.num_splits, 1};
  end_plan(call, it, target, "matmul_blocked", plan);
  return plan;
}

/// Parts of k. They depend on the call alone, so that sums are the same for any number of threads: more than one where
/// there would be few programs otherwise, and k is worth it.
std::int64_t parts_of_k(const MatmulCall& call) {
  constexpr std::int64_t kUsualBlockN = 128;
  const std::int64_t tiles = ceil_div(call.m, most_block_m(call)) * ceil_div(call.n, kUsualBlockN) * call.batches();
  std::int64_t parts = 1;
  while (parts < 8 && tiles * parts < kEnoughPrograms / 2 && call.k / (parts * 2) >= 2048) parts *= 2;
  return parts;
}

/// What a program takes of `extent`, filled up to `unit`, by the mean: parts are within one unit of each other.
double mean_part(std::int64_t extent, std::int64_t block, std::int64_t unit) {
  return static_cast<double>(ceil_div(extent, unit) * unit) /
         static_cast<double>(std::max<std::int64_t>(ceil_div(extent, block), 1));
}

/// Clocks of a core until all programs are done, dealt out over `threads`: multiplying, packing b once for each block
/// of rows unless all share it, packing a once for each block of columns, and adding to the sums for each part of k.
/// The constants fit products of 88 to 4096 rows on Zen 5; on an Emerald Rapids, where 4,700 configs were timed, other
/// ones chose no better. Both as they are and as an AVX2 CPU.
double blocked_clocks(const MatmulCall& call, const Config& config, const Target& target, std::int64_t threads) {
  const std::int64_t lanes = cpu_vector_bytes(target.features) / itemsize_bytes(call.accumulator);
  const double item = static_cast<double>(itemsize_bytes(call.accumulator)) / 4;  // of f32
  // To read and write a number of f32: in order, by way of squares in registers, singly.
  constexpr double kPackClocks[] = {0.6, 1.0, 3.0};
  // To read a number of a where it lies, once for each block of columns.
  constexpr double kReadClocks = 0.15;
  // More for what all share, which goes to the cache and back, or to memory.
  const double kept = call.k * call.n * itemsize_bytes(call.accumulator) <= kCachedBytes ? 0.7 : 2;
  constexpr double kLaunchClocks = 10'000, kProgramClocks = 1500;
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N");
  const std::int64_t programs =
      ceil_div(call.m, block_m) * ceil_div(call.n, block_n) * call.batches() * config.at("SPLIT_K");
  const double rows = mean_part(call.m, block_m, config.at("ROWS"));
  const double columns = mean_part(call.n, block_n, 2 * lanes);
  const double depth = static_cast<double>(call.k) / static_cast<double>(config.at("SPLIT_K"));
  // Rows of a that lie along m are copied as they lie, unless they become words.
  const bool is_copied = order_of(call.a) == 1 && packed_dtype(call, target) == call.accumulator;
  const double pack_b = kPackClocks[order_of(call.b)] * item;
  const double pack_a = kPackClocks[is_copied ? 0 : order_of(call.a)] * item;
  double program = rows * columns * depth / static_cast<double>(2 * lanes) + kProgramClocks;
  program += rows * columns * item * 0.4 * std::ceil(depth / static_cast<double>(config.at("BLOCK_K")));
  program += rows * depth * (order_of(call.a) != 0 || call.a.dtype != call.accumulator ? pack_a : kReadClocks * item);
  double before = 0;
  if (config.at("SHARED_PANELS") != 0)
    before = static_cast<double>(call.k * call.n) * (pack_b + kept * item) /
                 static_cast<double>(std::min<std::int64_t>(threads, 8)) +
             kLaunchClocks;
  else
    program += columns * depth * pack_b;
  return before + static_cast<double>(ceil_div(programs, threads)) * program;
}

Config blocked_config(const MatmulCall& call, const Target& target) {
  constexpr std::int64_t kUsualThreads = 8;  // where there is no telling
  const std::int64_t threads = call.processors > 0 ? call.processors : kUsualThreads;
  // Sums go to memory and back for each part of k: a few rows of it are none.
  constexpr std::int64_t kUsualBlockK = 256, kLongBlockK = 384, kFewRows = 64;
  const bool is_beyond = call.k > kUsualBlockK && (call.k - 1) % kUsualBlockK < kFewRows;
  Config best;
  double least = 0;
  for (const bool shares : {false, true})
    for (std::int64_t block_m = most_block_m(call); block_m >= 24; block_m /= 2)
      for (std::int64_t block_n = 256; block_n >= 32; block_n /= 2) {
        const std::int64_t parts = parts_of_k(call);
        const std::int64_t block_k = is_beyond && parts == 1 ? kLongBlockK : kUsualBlockK;
        if (shares && (!call.batch_extents.empty() || parts > 1)) continue;
        Config config{{"ROWS", cpu_vector_bytes(target.features) >= 64 ? 8 : 6},
                      {"BLOCK_M", block_m},
                      {"BLOCK_N", block_n},
                      {"BLOCK_K", block_k},
                      {"PACK_A", 0},
                      {"SPLIT_K", parts},
                      {"SHARED_PANELS", shares}};
        const double clocks = blocked_clocks(call, config, target, threads);
        if (!best.empty() && clocks >= least) continue;
        best = std::move(config);
        least = clocks;
      }
  return best;
}

}  // namespace

Variant blocked_variant(bool is_wide, const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse, {.name = is_wide ? "blocked_f64" : "blocked",
              .doc = "CPU: parts of k one after the other, b in panels that all programs read, a packed by each",
              .source = source,
              .kernel = "kiln::ops::matmul_blocked_kernel",
              .serves =
                  [is_wide](const FamilyCall& family, const Target& target) {
                    const MatmulCall& call = family.matmul;
                    return !is_cuda(target) && call.k > 0 && (call.accumulator == DType::f64) == is_wide &&
                           !is_for_rows(call) && packed_dtype(call, target).has_value();
                  },
              .space = [is_wide](const Target&) { return blocked_space(is_wide ? 8 : 4); },
              .default_config = [](const FamilyCall& call,
                                   const Target& target) { return blocked_config(well_read(call.matmul), target); },
              .plan = [](const FamilyCall& call, const Config& config,
                         const Target& target) { return blocked_plan(well_read(call.matmul), config, target); }});
}

}  // namespace kiln::matmul
