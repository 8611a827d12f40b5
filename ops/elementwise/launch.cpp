#include "ops/elementwise/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "ops/common/block_choice.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid_launch.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/elementwise/cpu_default.hpp"

namespace kiln::elementwise {
namespace {

using Elements = common::ConfigExpression;

constexpr std::int64_t kDefaultWarps = 4;
/// Elements of a thread in a contiguous kernel, or one 16-byte access where that holds more; fewer where together they
/// take more than kThreadBytes. Programs of four warps, so that their start is no limit even where the data are in the
/// L2 (an H200 starts 1.65 programs a nanosecond): with one or two, add of 2^20 to 2^22 elements took 1.2 to 1.6 times
/// as long. Measured there from 2^10 to 2^28 elements (docs/performance.md).
constexpr std::int64_t kLinearElements = 8;
constexpr std::int64_t kThreadBytes = 64;
/// From kHeavyFlops on an op on 16-bit elements is bound by arithmetic as much as by memory, and a thread does better
/// with two accesses to work on; from kVeryHeavyFlops on one access is work enough, and unrolled code takes long to
/// compile.
constexpr double kHeavyFlops = 10;
constexpr double kVeryHeavyFlops = 20;
/// A call of up to so many programs, two for each processor of an H200, waits for its code rather than for its data
/// (33x80 f32 over a flushed L2: 3 of 4 us are the launch), so that there one access a thread is enough: 145
/// instructions instead of 259 for log2 of f32.
constexpr std::int64_t kFewPrograms = 264;
/// From so many on an element's code is long, and what a small call waits for is the code: one element a thread has the
/// least of it, as far as threads run at a time (H200, with nothing in its caches: atan2 of 5 numbers 5.6 -> 4.0 us, a
/// division of 35,818 5.7 -> 4.4).
constexpr double kMuchCodeFlops = 8;
constexpr std::int64_t kThreadsAtATime = 132 * 1024;
/// Bytes that a thread of a strided kernel moves, where programs of as many are enough: with fewer their start is the
/// limit (8191x1 == 28672 of i64 took 620 us for 235 MB of booleans in programs of 256).
constexpr double kStridedThreadBytes = 32;
constexpr std::int64_t kMostStridedAccesses = 8;  // of a thread, for each operand: registers
constexpr std::int64_t kManyPrograms = 4096;
constexpr std::int64_t kMostElementsPerThread = 64;
/// What keeps a program's threads busy, and what their registers hold, of `elements` to a program.
std::vector<Constraint> fits_threads(const Elements& elements) {
  const Elements warps("num_warps");
  return {elements >= 32 * warps, elements <= (32 * kMostElementsPerThread) * warps};
}

const Tunable& kCudaWarps = *new Tunable{"num_warps", {4, 8, 2, 16, 1}};

ConfigSpace linear_space(const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_SIZE", {64, 128, 32, 256, 16}}}, {}};
  return {{{"BLOCK_SIZE", {1024, 512, 2048, 256, 4096, 128, 8192}}, kCudaWarps}, fits_threads("BLOCK_SIZE")};
}

/// On the CPU also whether the output goes past the caches.
ConfigSpace contiguous_space(const Target& target) {
  if (is_cuda(target)) return linear_space(target);
  return {{{"BLOCK_SIZE", {64, 128, 32, 256, 16}}, {"STREAM", {0, 1}}}, {}};
}

ConfigSpace tile_space(const Target& target) {
  const Elements tile = Elements("BLOCK_M") * "BLOCK_N";
  if (!is_cuda(target))
    return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64}}, {"BLOCK_N", {64, 128, 32, 16, 8, 4, 2, 256}}, {"STREAM", {0, 1}}},
            {tile <= 256, tile >= 2, common::ConfigExpression("STREAM") * "BLOCK_M" <= 1}};
  std::vector<Constraint> constraints = fits_threads(tile);
  constraints.insert(constraints.begin(), tile <= 8192);
  return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
           {"BLOCK_N", {1024, 512, 2048, 256, 128, 64, 32, 16, 8, 4, 2, 4096}},
           kCudaWarps},
          std::move(constraints)};
}

Config linear_default(const ElementwiseCall& call, std::int64_t elements_per_thread, const Target& target) {
  if (!is_cuda(target)) return {{"BLOCK_SIZE", cpu_block(call, target)}};
  if (call.row->flops >= kMuchCodeFlops) {
    const std::int64_t each = ceil_power_of_two(ceil_div(call.output.numel(), kThreadsAtATime));
    elements_per_thread = std::clamp<std::int64_t>(each, 1, elements_per_thread);
  }
  return {{"BLOCK_SIZE", elements_per_thread * 32 * kDefaultWarps}, {"num_warps", kDefaultWarps}};
}

/// Two columns at least; of blocks that are equally full the narrower reads less that is not there.
std::int64_t block_over(std::int64_t columns, std::int64_t least, std::int64_t most) {
  return common::block_over(std::max<std::int64_t>(columns, 2),
                            {.least = least, .most = most, .of_equals = common::EqualBlocks::narrower});
}

/// Elements of one access of a strided kernel.
std::int64_t strided_width(const ElementwiseCall& call) {
  return common::rows_keep_alignment(call.walk, call.vector_width) ? call.vector_width : 1;
}

Config tile_default(const ElementwiseCall& call, const Target& target) {
  const common::StridedWalk& walk = call.walk;
  const std::int64_t width = strided_width(call);
  const ops::StridedIteration whole = common::strided_iteration(walk, 1, 1);
  if (!is_cuda(target)) return cpu_tile_default(call, whole, target);
  const std::int64_t rows = std::max<std::int64_t>(whole.rows, 1);
  const std::int64_t columns = std::max<std::int64_t>(whole.columns, 1);
  const bool transposing = is_transposing(whole, walk.num_operands);
  // One 16-byte access for each thread: as fast as two within a few percent, and a third less to compile. Of single
  // elements as many as are in flight then.
  const std::int64_t in_flight = width > 1 ? width : std::min<std::int64_t>(call.vector_width, 8);
  const std::int64_t least = in_flight * 32 * kDefaultWarps;
  // Lines of 128 bytes each way; 8-byte elements by 32 rows of 16 (4096^2 i64 on an H200: 95 -> 73 us).
  const bool is_wide = call.vector_width <= 2;
  std::int64_t elements =
      transposing ? common::elements_of_few_programs(call.output.numel(), is_wide ? 512 : 1024) : least;
  const std::int64_t block_n =
      block_over(columns, call.vector_width * 16, transposing ? (is_wide ? 16 : 32) : elements);
  // More rows rather than longer ones: a row that is broadcast is then read once for all of them. What is broadcast
  // comes from caches, and counts once.
  const auto numel = static_cast<double>(call.output.numel());
  const auto is_short = [&] {
    return static_cast<double>(elements) * call.stored_bytes < kStridedThreadBytes * 32 * kDefaultWarps * numel;
  };
  while (!transposing && call.row->flops < kHeavyFlops && is_short() && elements < kMostStridedAccesses * least &&
         numel > static_cast<double>(2 * elements * kManyPrograms))
    elements *= 2;
  std::int64_t block_m =
      std::clamp<std::int64_t>(elements / block_n, 1, std::min<std::int64_t>(ceil_power_of_two(rows), 1024));
  std::int64_t num_warps = kDefaultWarps;
  while (num_warps > 1 && block_m * block_n < 32 * num_warps) num_warps /= 2;
  while (block_m * block_n < 32) block_m *= 2;
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"num_warps", num_warps}};
}

std::string functor_type(const ElementwiseCall& call, const Target& target) {
  const bool is_narrow = is_cuda(target) && call.types.compute == DType::f32 && itemsize_bytes(call.output.dtype) <= 2;
  const std::string functor =
      "kiln::ops::" +
      (is_narrow && !call.form->narrow_functor.empty() ? call.form->narrow_functor : call.form->functor);
  return call.has_scalar_right ? fmt::format("kiln::ops::ScalarRight<{}>", functor) : functor;
}

/// What all three kernels share: `shape_arguments` are the integers between Compute and Out, `iteration` the second
/// parameter.
template <typename Iteration>
LaunchPlan make_plan(const ElementwiseCall& call, const Config& config, std::int64_t programs,
                     std::initializer_list<std::int64_t> shape_arguments, const Iteration& iteration,
                     const Target& target) {
  KernelLaunch launch = common::grid_launch(call.row->name, programs, config, target);
  launch.template_arguments = {TypeName{functor_type(call, target)}, call.types.compute};
  for (const std::int64_t argument : shape_arguments) launch.template_arguments.emplace_back(argument);
  launch.template_arguments.emplace_back(call.output.dtype);
  common::KernelParameters parameters(launch);
  parameters.written(0, call.output.dtype).value(iteration);
  int tensor = 1;
  for (const TensorView& input : call.inputs) {
    launch.template_arguments.emplace_back(input.dtype);
    parameters.read(tensor++, input.dtype);
  }
  parameters.value(call.scalars);
  launch.vector_width = static_cast<std::int32_t>(call.vector_width);
  return {{std::move(launch)}, {}};
}

Config contiguous_default(const ElementwiseCall& call, const Target& target) {
  const std::int64_t width = call.vector_width;
  const std::int64_t bytes = call.bytes_per_element;
  const std::int64_t fitting = floor_power_of_two(kThreadBytes / bytes);
  std::int64_t elements = std::max(width, std::min(kLinearElements, fitting));
  if (call.row->flops >= kVeryHeavyFlops)
    elements = width;
  else if (call.row->flops >= kHeavyFlops && width >= 8)
    elements *= 2;
  if (is_cuda(target) && call.output.numel() <= kFewPrograms * width * 32 * kDefaultWarps) elements = width;
  Config config = linear_default(call, elements, target);
  if (!is_cuda(target)) {
    const bool streams = common::outgrows_caches(call.stored_bytes);
    config.set("STREAM", streams ? 1 : 0);
    if (streams) config.set("BLOCK_SIZE", streamed_elements(call));
  }
  return config;
}

LaunchPlan contiguous_plan(const ElementwiseCall& call, const Config& config, const Target& target) {
  if (!common::is_contiguous(call.walk)) throw InternalError("the contiguous variant was planned for a strided call");
  const std::int64_t block_size = config.at("BLOCK_SIZE");
  const std::int64_t* const stream = config.find("STREAM");
  // Blocks that begin at lines of the cache are one more: see tl::cover_lines.
  const std::int64_t streams = stream ? *stream : 0;
  return make_plan(call, config, ceil_div(call.walk.numel, block_size) + streams, {block_size, streams},
                   static_cast<long long>(call.walk.numel), target);
}

LaunchPlan indexed_plan(const ElementwiseCall& call, const Config& config, const Target& target) {
  const ops::IndexedIteration iteration = common::indexed_iteration(call.walk);
  const std::int64_t block_size = config.at("BLOCK_SIZE");
  LaunchPlan plan = make_plan(call, config, ceil_div(iteration.n, block_size),
                              {block_size, common::linear_operands(call.walk), iteration.num_dims,
                               common::stride_kinds(call.walk), common::has_long_rows(call.walk, call.vector_width)},
                              iteration, target);
  // Where some access of many elements is not wide, neighbouring threads shall touch neighbouring ones.
  if (!common::linear_but_for_broadcasts(call.walk)) plan.launches[0].vector_width = 1;
  return plan;
}

LaunchPlan strided_plan(const ElementwiseCall& call, const Config& config, const Target& target) {
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N");
  const std::int64_t* const stream = config.find("STREAM");
  common::ProgramExtents program{block_m, block_n};
  if (!is_cuda(target)) {
    const ops::StridedIteration whole = common::strided_iteration(call.walk, 1, 1);
    program = common::program_extents(whole.rows, whole.columns, program);
  }
  const ops::StridedIteration iteration = common::strided_iteration(call.walk, program.rows, program.columns);
  LaunchPlan plan =
      make_plan(call, config, common::num_programs(iteration),
                {block_m, block_n, stream ? *stream : 0, common::stride_kinds(call.walk)}, iteration, target);
  plan.launches[0].vector_width = static_cast<std::int32_t>(strided_width(call));
  return plan;
}

}  // namespace

std::vector<Variant> elementwise_variants(const ElementwiseParser& parse, const KernelSource& source) {
  using Call = ElementwiseCall;
  return {
      common::variant_of<Call>(
          parse, {.name = "contiguous",
                  .doc = "every operand is dense in the same order: one linear run",
                  .source = source,
                  .kernel = "kiln::ops::elementwise_contiguous_kernel",
                  .serves = [](const Call& call, const Target&) { return common::is_contiguous(call.walk); },
                  .space = contiguous_space,
                  .default_config = contiguous_default,
                  .plan = contiguous_plan}),
      common::variant_of<Call>(
          parse, {.name = "indexed",
                  .doc = "short or unaligned rows: each element's coordinates are computed from its index",
                  .source = source,
                  .kernel = "kiln::ops::elementwise_indexed_kernel",
                  .serves =
                      [](const Call& call, const Target& target) {
                        return common::prefers_indexed(call.walk, target.type, call.vector_width);
                      },
                  .space = linear_space,
                  .default_config =
                      [](const Call& call, const Target& target) {
                        return linear_default(call, std::max<std::int64_t>(4, call.vector_width), target);
                      },
                  .plan = indexed_plan}),
      common::variant_of<Call>(
          parse, {.name = "strided",
                  .doc = "any strides: 2-D tiles over the inner dimensions, one program per tile",
                  .source = source,
                  .kernel = "kiln::ops::elementwise_strided_kernel",
                  .space = tile_space,
                  .default_config = [](const Call& call, const Target& target) { return tile_default(call, target); },
                  .plan = strided_plan})};
}

}  // namespace kiln::elementwise
