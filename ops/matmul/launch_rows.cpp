#include "ops/matmul/launch_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/call_sm90.hpp"
#include "ops/matmul/estimate_sm90.hpp"
#include "ops/matmul/exchange.hpp"
#include "ops/matmul/machine.hpp"

namespace kiln::matmul {
namespace {

constexpr std::int64_t kMostRows = 4;
constexpr std::int64_t kAccessBytes = 16;
/// Programs that keep an H200's 132 multiprocessors busy.
constexpr std::int64_t kEnoughPrograms = 256;

/// The call whose a has the few rows: on GPUs few columns are those of the exchanged product.
MatmulCall with_few_rows(const MatmulCall& call, const Target& target) {
  return is_cuda(target) && call.n <= kMostRows && call.n < call.m ? exchanged(call) : call;
}

/// b's tiles run along k where its rows are contiguous, along n where its columns are.
bool runs_along_k(const MatmulCall& call) {
  return order_of(call.b) == 1;
}

std::int64_t packet_elements(const MatmulCall& call) {
  return kAccessBytes / itemsize_bytes(call.b.dtype);
}

/// The registers of a thread bound how much it may hold, and with 8 bytes it is half as many elements.
ConfigSpace space_of(bool is_wide, const Target& target) {
  const common::ConfigExpression tile = common::ConfigExpression("BLOCK_N") * "BLOCK_K", warps("num_warps");
  if (!is_cuda(target))
    return {{{"BLOCK_N", {64, 16, 4}}, {"BLOCK_K", {64, 16, 4}}, {"UNROLL", {1}}, {"SPLIT_K", {1, 2, 4, 8}}},
            {tile == 256}};
  const common::ConfigExpression to_a_thread = tile / (32 * warps);
  return {{{"BLOCK_N", {4, 1, 2, 8, 16, 32, 64, 128}},
           {"BLOCK_K", {8, 16, 32, 64, 128, 256, 512}},
           {"UNROLL", {8, 4, 2, 1}},
           {"SPLIT_K", {1, 2, 4, 8, 16, 32, 64, 128}},
           {"num_warps", {4, 8}}},
          {between(2, to_a_thread, is_wide ? 8 : 16), between(8, to_a_thread * "UNROLL", 64)}};
}

/// Whether all of a matrix's lines, so far apart, start at packets of so many elements.
bool has_packets(const Matrix& matrix, std::int64_t line_stride, std::int64_t packet) {
  return matrix.starts_packet && line_stride % packet == 0 &&
         std::all_of(matrix.batch_strides.begin(), matrix.batch_strides.end(),
                     [&](std::int64_t stride) { return stride % packet == 0; });
}

/// Elements that a thread accesses at once: a packet where the lines of b, and those of a that it reads beside them,
/// start at packets, else one: a program whose lines do not would take all of its tiles as those that reach over an
/// end.
std::int64_t vector_width(const MatmulCall& call) {
  const bool along_k = runs_along_k(call);
  const std::int64_t packet = packet_elements(call);
  const bool a_has_packets =
      !along_k || order_of(call.a) != 0 || has_packets(call.a, call.m > 1 ? call.a.row_stride : 0, packet);
  return a_has_packets && has_packets(call.b, along_k ? call.b.column_stride : call.b.row_stride, packet) ? packet : 1;
}

/// What keeps most of a matrix in flight on an H200, within a tenth of the best for 4096 x 4096 of bf16; of rows off
/// packets the best, or what takes less than a fifth longer, of a dozen random configs of 40 random products each.
Config cuda_config(const MatmulCall& call) {
  const std::int64_t packet = packet_elements(call);
  // Two packets of b to a thread, where what is read of a for one serves the other.
  const std::int64_t elements = std::min<std::int64_t>(2 * packet, 16);
  std::int64_t num_warps = 4, block_n = 4, block_k = 32 * elements;
  if (runs_along_k(call) && vector_width(call) == 1) {
    // Lanes that read an element each go along many lines at once, in steps that leave little of k to a last one.
    constexpr std::int64_t kShortK = 400;
    num_warps = 8;
    block_k = std::min<std::int64_t>(call.k <= kShortK ? 16 : 32, std::max<std::int64_t>(ceil_power_of_two(call.k), 8));
    block_n = std::min<std::int64_t>(64, ceil_power_of_two(call.n));
    while (block_n > 1 && block_k < 512 && block_k < call.k &&
           (ceil_div(call.n, block_n) * call.batches() < kEnoughPrograms || block_n * block_k < 2 * 32 * num_warps))
      block_n /= 2, block_k *= 2;
    if (block_n * block_k < 2 * 32 * num_warps) num_warps = 4;
    if (block_n * block_k < 2 * 32 * num_warps) block_n = 2 * 32 * num_warps / block_k;
  } else if (runs_along_k(call)) {
    // No longer than k, that no lane reads nothing.
    block_k = std::clamp<std::int64_t>(ceil_power_of_two(call.k), 8, block_k);
    block_n = std::min<std::int64_t>(32 * num_warps * elements / block_k, 128);
    // Nor more lines than there are, as far as each thread has two elements.
    const std::int64_t least = std::max<std::int64_t>(2 * 32 * num_warps / block_k, 1);
    block_n = std::max(std::min(block_n, ceil_power_of_two(call.n)), least);
  } else {
    // Rows of a line of 128 bytes, or of a sector where that leaves enough programs and no second kernel is needed.
    num_warps = 8;
    block_n = 8 * packet;
    while (block_n > 2 * packet && ceil_div(call.n, block_n) * call.batches() < kEnoughPrograms) block_n /= 2;
    if (ceil_div(call.n, block_n) * call.batches() < kEnoughPrograms) block_n = 8 * packet;
    block_n = std::min(block_n, floor_power_of_two(call.n));  // what reaches over the end is slow
    block_k = std::min<std::int64_t>(32 * num_warps * elements / block_n, 512);
  }
  const std::int64_t to_a_thread = block_n * block_k / (32 * num_warps);
  if (to_a_thread < 2) num_warps = 4;
  const std::int64_t each = block_n * block_k / (32 * num_warps);
  const std::int64_t unroll =
      std::clamp<std::int64_t>(floor_power_of_two(call.k / block_k), std::max<std::int64_t>(8 / each, 1), 64 / each);
  const std::int64_t programs = ceil_div(call.n, block_n) * call.batches();
  std::int64_t split = 1;
  if (programs < kEnoughPrograms)
    while (split < 128 && programs * split < kEnoughPrograms && call.k / (split * 2) >= unroll * block_k) split *= 2;
  return {{"BLOCK_N", block_n},
          {"BLOCK_K", block_k},
          {"UNROLL", std::min<std::int64_t>(unroll, 8)},
          {"SPLIT_K", split},
          {"num_warps", num_warps}};
}

/// By the default config; the constants are those of 117 times of random products on an H200 (2026-11-25), with
/// residuals of a factor of 1.5, but for two: what is waited for and what joining costs are rounded from a fit to 547
/// times of an H100 (2026-11-27).
std::optional<double> estimate_us(const MatmulCall& call, const Target& target) {
  if (!is_cuda(target)) return std::nullopt;
  constexpr double kStartUs = 4.1, kMemoryBytesPerClock = 2100;
  constexpr double kCombineUs = 3.2;
  constexpr double kWaitClocks = 1000;    // for the tiles that are loaded together
  constexpr double kTailClocks = 400;     // where k is no whole number of these
  constexpr double kStepsPerClock = 110;  // of the lanes of one multiprocessor
  constexpr double kWarpsTogether = 16;   // on a multiprocessor
  const Config config = cuda_config(call);
  const auto as_double = [](std::int64_t x) { return static_cast<double>(x); };
  const KSplit split = split_k(call, config);
  const std::int64_t block_n = config.at("BLOCK_N"), block_k = config.at("BLOCK_K") * config.at("UNROLL");
  const double programs = as_double(ceil_div(call.n, block_n) * call.batches() * split.num_splits);
  const double programs_each = programs / as_double(usable_processors(call, target));
  const double rounds = std::max(1.0, std::ceil(programs_each * as_double(config.at("num_warps")) / kWarpsTogether));
  const std::int64_t steps = ceil_div(split.k_per_split, block_k);
  const bool is_packed = vector_width(call) > 1;
  const double instructions =
      (is_packed ? 1 : 2) + (is_packed ? 4.5 : 8) * as_double(ceil_power_of_two(call.m));  // to an element of b
  const double work = as_double(steps * block_n * block_k) * instructions / kStepsPerClock;
  const double wait = kWaitClocks * as_double(steps + 1) + (split.k_per_split % block_k != 0 ? kTailClocks : 0);
  const double bytes = as_double(call.batches()) * as_double(call.n) * as_double(call.k * itemsize_bytes(call.b.dtype));
  return kStartUs + (split.num_splits > 1 ? kCombineUs : 0) +
         std::max({programs_each * work, rounds * wait, work + wait, bytes / kMemoryBytesPerClock}) / kClocksPerUs;
}

Config cpu_config(const MatmulCall& call) {
  const std::int64_t block_n = runs_along_k(call) ? 4 : 64;
  return {{"BLOCK_N", block_n}, {"BLOCK_K", 256 / block_n}, {"UNROLL", 1}, {"SPLIT_K", 1}};
}

LaunchPlan make_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const std::int64_t rows = ceil_power_of_two(call.m);
  const std::int64_t block_n = config.at("BLOCK_N"), block_k = config.at("BLOCK_K");
  const KSplit split = split_k(call, config);
  const ops::MatmulIteration it = make_iteration(call, rows, block_n, split, target);

  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  const bool is_whole = split.num_splits == 1;
  launch.template_arguments.emplace_back(first_argument(call, split));
  launch.template_arguments.emplace_back(std::min<std::int64_t>(order_of(call.a) * 2, 2));
  launch.template_arguments.emplace_back(order_of(call.b));
  if (is_whole) launch.template_arguments.emplace_back(order_of(call.out));
  for (const std::int64_t size : {rows, block_n, block_k, config.at("UNROLL")})
    launch.template_arguments.emplace_back(size);
  launch.template_arguments.emplace_back(!call.batch_extents.empty());
  for (const DType dtype : {call.a.dtype, call.b.dtype}) launch.template_arguments.emplace_back(dtype);
  common::KernelParameters parameters(launch);
  parameters.read(call.a.tensor, call.a.dtype).read(call.b.tensor, call.b.dtype);
  launch.geometry.grid = {it.tiles, split.num_splits, 1};
  if (const std::int64_t* num_warps = config.find("num_warps"))
    launch.geometry.num_warps = static_cast<std::int32_t>(*num_warps);
  launch.vector_width = static_cast<std::int32_t>(vector_width(call));
  end_plan(call, it, target, "matmul_rows", plan);
  return plan;
}

}  // namespace

Variant rows_variant(bool is_wide, const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse,
      {.name = is_wide ? "rows_f64" : "rows",
       .doc = "up to four rows times a matrix whose rows or columns are contiguous: the matrix is read once, untouched "
              "by shared memory",
       .source = source,
       .kernel = "kiln::ops::matmul_rows_kernel",
       .serves =
           [is_wide](const FamilyCall& family, const Target& target) {
             const MatmulCall call = with_few_rows(family.matmul, target);
             return call.m <= kMostRows && order_of(call.b) != 2 && call.num_sms == 0 &&
                    (call.a.dtype == DType::f64) == is_wide;
           },
       .space = [is_wide](const Target& target) { return space_of(is_wide, target); },
       .default_config =
           [](const FamilyCall& call, const Target& target) {
             const MatmulCall few = with_few_rows(call.matmul, target);
             return is_cuda(target) ? cuda_config(few) : cpu_config(few);
           },
       .plan = [](const FamilyCall& call, const Config& config,
                  const Target& target) { return make_plan(with_few_rows(call.matmul, target), config, target); },
       .estimate_us = [](const FamilyCall& call, const Target& target) -> std::optional<double> {
         // A weight is to take few kernels: three and four rows have those of more.
         if (call.matmul.m > 2 && has_sm90_kernel(target) && call.sm90 && is_of_a_weight(*call.sm90))
           return std::numeric_limits<double>::infinity();
         return estimate_us(with_few_rows(call.matmul, target), target);
       }});
}

}  // namespace kiln::matmul
