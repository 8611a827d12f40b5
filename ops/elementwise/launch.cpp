#include "ops/elementwise/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "ops/elementwise/iteration_plan.hpp"
#include "ops/elementwise/promotion.hpp"
#include "ops/grid.hpp"

namespace kiln::elementwise {
namespace {

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
constexpr std::int64_t kMostElementsPerThread = 64;
/// A call that moves more than this leaves little of its output in a CPU's caches (32 MB is a usual last level, which
/// the inputs share), so the output goes past them. A constant rather than the machine's cache size: virtual machines
/// report sizes that are wrong by ten, and a config should depend on the model of the CPU alone.
constexpr std::int64_t kStreamingBytes = std::int64_t{64} << 20;

CollapsedIteration collapse_call(const OpRow& row, const OpCall& call) {
  return collapse(call.outputs[0], kernel_inputs(row, call.inputs));
}

std::int64_t vector_width(const OpRow& row, const OpCall& call) {
  std::int64_t widest_bytes = itemsize_bytes(call.outputs[0].dtype);
  for (const TensorView& input : kernel_inputs(row, call.inputs))
    widest_bytes = std::max(widest_bytes, itemsize_bytes(input.dtype));
  return 16 / widest_bytes;
}

std::int64_t bytes_per_element(const OpRow& row, const OpCall& call) {
  std::int64_t bytes = itemsize_bytes(call.outputs[0].dtype);
  for (const TensorView& input : kernel_inputs(row, call.inputs)) bytes += itemsize_bytes(input.dtype);
  return bytes;
}

std::int64_t product(const Config& config, const std::vector<std::string>& factors) {
  std::int64_t elements = 1;
  for (const std::string& factor : factors) elements *= config.at(factor);
  return elements;
}

Constraint threads_are_busy(const std::vector<std::string>& factors) {
  return {fmt::format("{} >= 32 * num_warps", fmt::join(factors, " * ")),
          [factors](const Config& config) { return product(config, factors) >= 32 * config.at("num_warps"); }};
}

Constraint registers_suffice(const std::vector<std::string>& factors) {
  constexpr std::int64_t kMost = 32 * kMostElementsPerThread;
  return {fmt::format("{} <= {} * num_warps", fmt::join(factors, " * "), kMost),
          [factors](const Config& config) { return product(config, factors) <= kMost * config.at("num_warps"); }};
}

const Tunable kCudaWarps{"num_warps", {4, 8, 2, 16, 1}};

ConfigSpace linear_space(const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_SIZE", {128, 64, 256}}}, {}};
  return {{{"BLOCK_SIZE", {1024, 512, 2048, 256, 4096, 128, 8192}}, kCudaWarps},
          {threads_are_busy({"BLOCK_SIZE"}), registers_suffice({"BLOCK_SIZE"})}};
}

/// On the CPU also whether the output goes past the caches.
ConfigSpace contiguous_space(const Target& target) {
  if (is_cuda(target)) return linear_space(target);
  return {{{"BLOCK_SIZE", {128, 64, 256}}, {"STREAM", {0, 1}}}, {}};
}

ConfigSpace tile_space(const Target& target) {
  if (!is_cuda(target))
    return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64}}, {"BLOCK_N", {64, 128, 32, 16, 8, 4, 2, 256}}},
            {{"BLOCK_M * BLOCK_N <= 256", [](const Config& c) { return c.at("BLOCK_M") * c.at("BLOCK_N") <= 256; }},
             {"BLOCK_M * BLOCK_N >= 16", [](const Config& c) { return c.at("BLOCK_M") * c.at("BLOCK_N") >= 16; }}}};
  return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
           {"BLOCK_N", {1024, 512, 2048, 256, 128, 64, 32, 16, 8, 4, 2, 4096}},
           kCudaWarps},
          {{"BLOCK_M * BLOCK_N <= 8192", [](const Config& c) { return c.at("BLOCK_M") * c.at("BLOCK_N") <= 8192; }},
           threads_are_busy({"BLOCK_M", "BLOCK_N"}),
           registers_suffice({"BLOCK_M", "BLOCK_N"})}};
}

Config linear_default(std::int64_t elements_per_thread, std::int64_t cpu_block, const Target& target) {
  if (!is_cuda(target)) return {{"BLOCK_SIZE", cpu_block}};
  return {{"BLOCK_SIZE", elements_per_thread * 32 * kDefaultWarps}, {"num_warps", kDefaultWarps}};
}

/// The widest power of two up to `most` whose tiles are at least nine tenths full over `columns`, else the one that is
/// fullest (at least `least` wide: narrower tiles waste more in short accesses than they save).
std::int64_t block_columns(std::int64_t columns, std::int64_t least, std::int64_t most) {
  const std::int64_t cap = std::clamp(ceil_power_of_two(columns), std::int64_t{2}, most);
  std::int64_t best = cap;
  double best_full = 0;
  for (std::int64_t width = cap; width >= std::min(cap, least); width /= 2) {
    const double full = static_cast<double>(columns) / static_cast<double>(ceil_div(columns, width) * width);
    if (full >= 0.9) return width;
    if (full >= best_full) {
      best = width;
      best_full = full;
    }
  }
  return best;
}

/// An input is dense along the rows and strides along the columns: the tile must be long both ways for either side to
/// use the whole of a cache line.
bool is_transposing(const ops::StridedIteration& iteration, int num_operands) {
  for (int o = 1; o < num_operands; ++o) {
    const auto is_dense = [](long long stride) { return stride == 1 || stride == -1; };
    if (is_dense(iteration.row_strides[o]) && !is_dense(iteration.column_strides[o]) &&
        iteration.column_strides[o] != 0)
      return true;
  }
  return false;
}

Config tile_default(const CollapsedIteration& iteration, std::int64_t width, const Target& target) {
  const ops::StridedIteration whole = strided_iteration(iteration, 1, 1);
  const std::int64_t rows = std::max<std::int64_t>(whole.rows, 1);
  const std::int64_t columns = std::max<std::int64_t>(whole.columns, 1);
  const bool transposing = is_transposing(whole, iteration.num_operands);
  if (!is_cuda(target)) {
    // Measured with AVX-512: 128 elements stay in registers; wide rows run best one at a time; a transposing read does
    // best in runs of 16.
    const std::int64_t block_n = block_columns(columns, 8, transposing ? 8 : 64);
    std::int64_t block_m = block_n >= 64 ? 1 : std::min(128 / block_n, ceil_power_of_two(rows));
    while (block_m * block_n < 16) block_m *= 2;
    return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}};
  }
  // One 16-byte access for each thread: as fast as two within a few percent, and a third less to compile.
  const std::int64_t elements = transposing ? 1024 : width * 32 * kDefaultWarps;
  const std::int64_t block_n = block_columns(columns, width * 16, transposing ? 32 : elements);
  std::int64_t block_m =
      std::clamp<std::int64_t>(elements / block_n, 1, std::min<std::int64_t>(ceil_power_of_two(rows), 1024));
  std::int64_t num_warps = kDefaultWarps;
  while (num_warps > 1 && block_m * block_n < 32 * num_warps) num_warps /= 2;
  while (block_m * block_n < 32) block_m *= 2;
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"num_warps", num_warps}};
}

std::string functor_type(const OpRow& row, const OpCall& call, DType compute, const Target& target) {
  const Form& form = form_of(row, call.attributes, compute);
  const bool is_narrow = is_cuda(target) && compute == DType::f32 && itemsize_bytes(call.outputs[0].dtype) <= 2;
  const std::string functor =
      "kiln::ops::" + (is_narrow && !form.narrow_functor.empty() ? form.narrow_functor : form.functor);
  return row.arity == 2 && call.inputs.size() == 1 ? "kiln::ops::ScalarRight<" + functor + ">" : functor;
}

/// What all three kernels share: `shape_arguments` are the integers between Compute and Out, `iteration` the second
/// parameter.
template <typename Iteration>
LaunchPlan make_plan(const OpRow& row, const OpCall& call, const Config& config, std::int64_t programs,
                     std::initializer_list<std::int64_t> shape_arguments, const Iteration& iteration,
                     const Target& target) {
  const ElementwiseTypes types = resolve_types(row, call.inputs, call.attributes);
  KernelLaunch launch;
  launch.template_arguments = {TypeName{functor_type(row, call, types.compute, target)}, types.compute};
  for (const std::int64_t argument : shape_arguments) launch.template_arguments.emplace_back(argument);
  launch.template_arguments.emplace_back(call.outputs[0].dtype);
  launch.arguments.add_tensor(0);
  launch.arguments.add_value(iteration);
  int tensor = 1;
  for (const TensorView& input : kernel_inputs(row, call.inputs)) {
    launch.template_arguments.emplace_back(input.dtype);
    launch.arguments.add_tensor(tensor++);
  }
  launch.arguments.add_value(make_scalars(row, call.attributes, types));
  check_grid(row.name, programs, target);
  launch.geometry.grid[0] = programs;
  if (const std::int64_t* num_warps = config.find("num_warps"))
    launch.geometry.num_warps = static_cast<std::int32_t>(*num_warps);
  launch.vector_width = static_cast<std::int32_t>(vector_width(row, call));
  return {{std::move(launch)}, {}};
}

Variant contiguous(const OpRow& row) {
  Variant variant;
  variant.name = "contiguous";
  variant.doc = "every operand is dense in the same order: one linear run";
  variant.kernel = "kiln::ops::elementwise_contiguous_kernel";
  variant.serves = [&row](const OpCall& call, const Target&) { return is_contiguous(collapse_call(row, call)); };
  variant.space = contiguous_space;
  variant.default_config = [&row](const OpCall& call, const Target& target) {
    const std::int64_t width = vector_width(row, call);
    const std::int64_t bytes = bytes_per_element(row, call);
    const auto fitting = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(kThreadBytes / bytes)));
    std::int64_t elements = std::max(width, std::min(kLinearElements, fitting));
    if (row.flops >= kVeryHeavyFlops)
      elements = width;
    else if (row.flops >= kHeavyFlops && width >= 8)
      elements *= 2;
    const std::int64_t numel = call.outputs[0].numel();
    Config config = linear_default(elements, width <= 2 ? 64 : 128, target);
    // A call of half a program, which is whole, rather than half of one: add of 1024 i8 takes 1.0 us and not 1.5.
    if (is_cuda(target) && 2 * numel == config.at("BLOCK_SIZE")) {
      config.set("BLOCK_SIZE", numel);
      config.set("num_warps", kDefaultWarps / 2);
    }
    if (!is_cuda(target)) config.set("STREAM", numel * bytes >= kStreamingBytes ? 1 : 0);
    return config;
  };
  variant.plan = [&row](const OpCall& call, const Config& config, const Target& target) {
    const CollapsedIteration iteration = collapse_call(row, call);
    if (!is_contiguous(iteration)) throw InternalError("the contiguous variant was planned for a strided call");
    const std::int64_t block_size = config.at("BLOCK_SIZE");
    const std::int64_t* const stream = config.find("STREAM");
    return make_plan(row, call, config, ceil_div(iteration.numel, block_size), {block_size, stream ? *stream : 0},
                     static_cast<long long>(iteration.numel), target);
  };
  return variant;
}

Variant indexed(const OpRow& row) {
  Variant variant;
  variant.name = "indexed";
  variant.doc = "small inner dimensions: each element's coordinates are computed from its index";
  variant.kernel = "kiln::ops::elementwise_indexed_kernel";
  variant.serves = [&row](const OpCall& call, const Target& target) {
    return prefers_indexed(collapse_call(row, call), target.type);
  };
  variant.space = linear_space;
  variant.default_config = [](const OpCall&, const Target& target) { return linear_default(4, 128, target); };
  variant.plan = [&row](const OpCall& call, const Config& config, const Target& target) {
    const ops::IndexedIteration iteration = indexed_iteration(collapse_call(row, call));
    const std::int64_t block_size = config.at("BLOCK_SIZE");
    LaunchPlan plan = make_plan(row, call, config, ceil_div(iteration.n, block_size), {block_size}, iteration, target);
    plan.launches[0].vector_width = 1;  // no access is wide, and neighbouring threads shall touch neighbouring elements
    return plan;
  };
  return variant;
}

Variant strided(const OpRow& row) {
  Variant variant;
  variant.name = "strided";
  variant.doc = "any strides: 2-D tiles over the inner dimensions, one program per tile";
  variant.kernel = "kiln::ops::elementwise_strided_kernel";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = tile_space;
  variant.default_config = [&row](const OpCall& call, const Target& target) {
    return tile_default(collapse_call(row, call), vector_width(row, call), target);
  };
  variant.plan = [&row](const OpCall& call, const Config& config, const Target& target) {
    const CollapsedIteration collapsed = collapse_call(row, call);
    const std::int64_t block_m = config.at("BLOCK_M");
    const std::int64_t block_n = config.at("BLOCK_N");
    const ops::StridedIteration iteration = strided_iteration(collapsed, block_m, block_n);
    return make_plan(row, call, config, num_programs(iteration), {block_m, block_n, stride_kinds(collapsed)}, iteration,
                     target);
  };
  return variant;
}

}  // namespace

std::span<const TensorView> kernel_inputs(const OpRow& row, std::span<const TensorView> inputs) {
  return row.rule == DTypeRule::fill ? std::span<const TensorView>() : inputs;
}

std::vector<Variant> elementwise_variants(const OpRow& row, const KernelSource& source) {
  std::vector<Variant> variants = {contiguous(row), indexed(row), strided(row)};
  for (Variant& variant : variants) variant.source = source;
  return variants;
}

}  // namespace kiln::elementwise
