#include "ops/matmul/launch_thin.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/machine.hpp"

namespace kiln::matmul {
namespace {

/// Of k; far beyond what other kernels would take longer for.
constexpr std::int64_t kMostDepth = 512;

ConfigSpace space() {
  const common::ConfigExpression elements = common::ConfigExpression("BLOCK_M") * "BLOCK_N",
                                 threads = 32 * common::ConfigExpression("num_warps");
  return {{{"BLOCK_M", {8, 1, 2, 4, 16}},
           {"BLOCK_N", {512, 16, 32, 64, 128, 256}},
           {"UNROLL", {4, 2, 8, 16, 32}},
           {"num_warps", {4, 1, 2}}},
          {elements >= threads, elements <= 32 * threads}};
}

/// Eight rows and four columns to a thread where that leaves programs for all processors; small products are spread.
Config default_config(const MatmulCall& call) {
  constexpr std::int64_t kEnoughWarps = 132 * 8;
  const std::int64_t outputs = call.m * call.n * call.batches();
  std::int64_t num_warps = 4, block_m = std::min<std::int64_t>(floor_power_of_two(call.m), 8);
  std::int64_t block_n = std::clamp<std::int64_t>(floor_power_of_two(call.n), 16, 512);
  while (block_m * block_n > 32 * num_warps && outputs < kEnoughWarps / num_warps * block_m * block_n) {
    if (num_warps > 1 && block_n >= 64)
      num_warps /= 2, block_n /= 2;
    else if (block_m > 1)
      block_m /= 2;
    else
      block_n /= 2;
  }
  while (block_m * block_n < 32 * num_warps) {
    if (num_warps > 1)
      num_warps /= 2;
    else
      block_m *= 2;
  }
  // All of a little k is asked for at once, as far as a thread's registers go.
  const std::int64_t to_a_thread = block_m * block_n / (32 * num_warps);
  const std::int64_t unroll = std::clamp<std::int64_t>(ceil_power_of_two(call.k), 2, to_a_thread <= 4 ? 8 : 4);
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"UNROLL", unroll}, {"num_warps", num_warps}};
}

/// By the default config on an H200; the constants are those of 106 times of random products (2026-11-25), whose
/// logarithms have residuals of 0.17.
std::optional<double> estimate_us(const MatmulCall& call, const Target& target) {
  constexpr double kStartUs = 3.6, kMemoryBytesPerClock = 2000;
  // Instructions:
  constexpr double kProduct = 5.9, kLoadAcross = 4.7, kLoadAcrossLongLines = 14, kByte = 4.6;
  constexpr double kOutput = 14, kSingleOutput = 7;
  constexpr double kInstructionsPerClock = 110;  // of the lanes of one multiprocessor
  constexpr double kWaitClocks = 950;            // for what is loaded together
  constexpr double kWarpsTogether = 16;          // on a multiprocessor
  constexpr std::int64_t kLongLineBytes = 64;
  // Threads that go along a line each have more lines in hand than the nearest cache: they come several times.
  constexpr double kReadsOfLongLines = 5;
  const auto as_double = [](std::int64_t x) { return static_cast<double>(x); };
  const Config config = default_config(call);
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N"),
                     size = itemsize_bytes(call.a.dtype);
  const double programs = as_double(ceil_div(call.m, block_m) * ceil_div(call.n, block_n) * call.batches());
  const double programs_each = programs / as_double(usable_processors(call, target));
  const double rounds = std::max(1.0, programs_each * as_double(config.at("num_warps")) / kWarpsTogether);
  const double waiting = rounds * kWaitClocks * (1 + as_double(ceil_div(call.k, config.at("UNROLL"))));
  double product = kProduct + (size == 1 ? kByte : 0);
  const bool goes_along_lines = order_of(call.b) != 0 && call.k * size > kLongLineBytes;
  if (order_of(call.b) != 0 && call.k > 1) product += goes_along_lines ? kLoadAcrossLongLines : kLoadAcross;
  const double output = kOutput + (call.n * itemsize_bytes(call.out.dtype) % 16 != 0 ? kSingleOutput : 0);
  const double stepping =
      programs_each * as_double(block_m * block_n) * (as_double(call.k) * product + output) / kInstructionsPerClock;
  const double bytes =
      as_double(call.batches()) *
      ((as_double(call.m) + as_double(call.n) * (goes_along_lines ? kReadsOfLongLines : 1)) * as_double(call.k * size) +
       as_double(call.m) * as_double(call.n * itemsize_bytes(call.out.dtype)));
  return kStartUs +
         std::max({waiting + (rounds > 1 ? 0 : stepping), stepping, bytes / kMemoryBytesPerClock}) / kClocksPerUs;
}

LaunchPlan make_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const auto block = [&](const char* name, std::int64_t extent) {
    return std::min(config.at(name), floor_power_of_two(extent));
  };
  const std::int64_t block_m = block("BLOCK_M", call.m), block_n = block("BLOCK_N", call.n);
  const KSplit whole{1, call.k};
  const ops::MatmulIteration it = make_iteration(call, block_m, block_n, whole, target);
  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments.emplace_back(first_argument(call, whole));
  for (const Matrix* matrix : {&call.a, &call.b, &call.out}) launch.template_arguments.emplace_back(order_of(*matrix));
  for (const std::int64_t size : {block_m, block_n, config.at("UNROLL")}) launch.template_arguments.emplace_back(size);
  launch.template_arguments.emplace_back(!call.batch_extents.empty());
  for (const DType dtype : {call.a.dtype, call.b.dtype}) launch.template_arguments.emplace_back(dtype);
  common::KernelParameters parameters(launch);
  parameters.read(call.a.tensor, call.a.dtype).read(call.b.tensor, call.b.dtype);
  launch.geometry.grid = {it.tiles, 1, 1};
  launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
  launch.vector_width = 1;  // lines of any alignment
  end_plan(call, it, target, "matmul_thin", plan);
  return plan;
}

}  // namespace

Variant thin_variant(const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse, {.name = "thin",
              .doc = "little to sum: outputs in registers, operands of any strides straight from memory",
              .source = source,
              .kernel = "kiln::ops::matmul_thin_kernel",
              .serves =
                  [](const FamilyCall& family, const Target& target) {
                    const MatmulCall& call = family.matmul;
                    return is_cuda(target) && call.num_sms == 0 && std::min({call.m, call.n, call.k}) >= 1 &&
                           call.k <= kMostDepth;
                  },
              .space = [](const Target&) { return space(); },
              .default_config = [](const FamilyCall& family, const Target&) { return default_config(family.matmul); },
              .plan = [](const FamilyCall& family, const Config& config,
                         const Target& target) { return make_plan(family.matmul, config, target); },
              .estimate_us = [](const FamilyCall& family,
                                const Target& target) { return estimate_us(family.matmul, target); }});
}

}  // namespace kiln::matmul
