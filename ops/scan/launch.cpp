#include "ops/scan/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/common/strided_walk.hpp"
#include "ops/scan/iteration.hpp"

namespace kiln::scan {
namespace {

/// A tile on a GPU, in accumulators: 16 of four bytes for each thread of four warps, which keep enough loads in flight
/// while the scan's shuffles wait for one another.
constexpr std::int64_t kCudaTileBytes = 8192;
constexpr std::int64_t kDefaultWarps = 4;
/// A row of a tile whose rows are not the lines spans this many bytes, whole lines of the cache.
constexpr std::int64_t kAcrossBytes = 256;

/// Long lines are cut in chunks where there are too few lines to fill the machine: up to kFewest programs, into about
/// kWanted. Cutting reads the input twice. The numbers are constants so that results do not depend on the machine's
/// size.
struct ChunkRule {
  std::int64_t fewest, wanted, least_elements;
};
constexpr ChunkRule kCudaChunks{264, 1024, 8192};
constexpr ChunkRule kCpuChunks{7, 16, 32768};
/// On a CPU: lines that are worth going along next to one another, and elements of a line up to which that is done an
/// element of each at a time, and at all (measured on a Zen 5 with vectors of 64 and 32 bytes).
constexpr std::int64_t kManyCpuLines = 16;
constexpr std::int64_t kShortCpuLine = 16;
constexpr std::int64_t kLongCpuLine = 1024;

/// The scanned dimension and the others, of which dims[0] is the tile's other one.
struct Geometry {
  std::int64_t length = 1;
  std::int64_t length_strides[ops::kScanOperands] = {};
  common::StridedWalk others;
  bool along_rows = true;  ///< the rows of a tile are lines: memory is dense along them rather than across

  std::int64_t lines() const { return others.dims.empty() ? 1 : others.dims[0].extent; }
  std::int64_t line_stride(int operand) const {
    return others.dims.empty() ? 0 : others.dims[0].strides[static_cast<std::size_t>(operand)];
  }
  std::int64_t outer_programs() const {
    std::int64_t programs = 1;
    for (std::size_t dim = 1; dim < others.dims.size(); ++dim) programs *= others.dims[dim].extent;
    return programs;
  }
};

Geometry geometry_of(const OpCall& call, int axis) {
  const TensorView& out = call.outputs[0];
  const TensorView& in = call.inputs[0];
  Geometry geometry;
  if (out.numel() > 0 && out.ndim() > 0) {  // a call without elements is planned too, though it launches nothing
    geometry.length = out.shape[axis];
    geometry.length_strides[ops::kScanOut] = out.strides[axis];
    geometry.length_strides[ops::kScanIn] = in.strides[axis];
  }
  const TensorView in_rest = common::without_axis(in, axis);
  geometry.others = common::strided_walk(common::without_axis(out, axis), {&in_rest, 1});
  geometry.along_rows =
      geometry.lines() == 1 || (geometry.length > 1 && common::magnitude(geometry.length_strides[ops::kScanOut]) <=
                                                           common::magnitude(geometry.line_stride(ops::kScanOut)));
  return geometry;
}

/// A call as the kernels see it.
struct ScanLines {
  const OpRow* row = nullptr;
  ScanCall scan;
  DType in = DType::f32;
  Geometry geometry;
};

ConfigSpace space(const Target& target) {
  const common::ConfigExpression tile = common::ConfigExpression("BLOCK_LINES") * "BLOCK_LENGTH", warps("num_warps");
  if (!is_cuda(target))
    return {{{"BLOCK_LINES", {1, 2, 4, 8, 16, 32, 64}}, {"BLOCK_LENGTH", {64, 128, 32, 16, 8, 4, 2, 1}}},
            {tile <= 128, tile >= 16}};
  return {{{"BLOCK_LINES", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
           {"BLOCK_LENGTH", {2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 4096}},
           {"num_warps", {4, 8, 2, 1, 16}}},
          {tile >= 32 * warps, tile <= 1024 * warps}};
}

/// Several short lines next to one another, an element or two of each at a time, depend on one another least; of long
/// ones the accesses to as many places in memory cost more than that, and of vectors of 32 bytes sooner.
Config cpu_tile_along_rows(const Geometry& geometry, const Target& target) {
  const bool is_wide = common::vector_register_bytes(target) >= 64;
  if (geometry.lines() >= kManyCpuLines && geometry.length < kShortCpuLine)
    return {{"BLOCK_LINES", is_wide ? 16 : 64}, {"BLOCK_LENGTH", 1}};
  if (geometry.lines() >= kManyCpuLines && geometry.length < kLongCpuLine && is_wide)
    return {{"BLOCK_LINES", 8}, {"BLOCK_LENGTH", 2}};
  return {{"BLOCK_LINES", 1}, {"BLOCK_LENGTH", 16}};
}

Config default_config(const ScanLines& call, const Target& target) {
  const Geometry& geometry = call.geometry;
  const std::int64_t length = ceil_power_of_two(std::max<std::int64_t>(geometry.length, 1));
  const std::int64_t lines = ceil_power_of_two(std::max<std::int64_t>(geometry.lines(), 1));
  if (!is_cuda(target)) {
    if (geometry.along_rows) return cpu_tile_along_rows(geometry, target);
    // 64 elements stay in registers.
    const std::int64_t block_length = std::max<std::int64_t>(1, 64 / std::min<std::int64_t>(lines, 64));
    return {{"BLOCK_LINES", 64 / block_length}, {"BLOCK_LENGTH", block_length}};
  }
  const std::int64_t tile = kCudaTileBytes / itemsize_bytes(call.scan.accumulator);
  std::int64_t block_lines, block_length;
  if (geometry.along_rows) {
    block_length = std::min(length, tile);
    block_lines = std::clamp<std::int64_t>(tile / block_length, 1, std::min<std::int64_t>(lines, 1024));
  } else {
    block_lines = std::min(lines, kAcrossBytes / itemsize_bytes(call.scan.out));
    block_length = std::min(length, tile / block_lines);
  }
  while (block_lines * block_length < 32) block_lines *= 2;
  const std::int64_t num_warps = std::min(kDefaultWarps, block_lines * block_length / 32);
  return {{"BLOCK_LINES", block_lines}, {"BLOCK_LENGTH", block_length}, {"num_warps", num_warps}};
}

/// What one kernel of a plan works in.
struct Tiling {
  std::int64_t block_lines, block_length;
  bool along_rows;
};

std::int64_t programs_of(const OpRow& row, const ops::ScanIteration& iteration, const Target& target) {
  std::int64_t programs = iteration.chunks * iteration.line_blocks;
  for (int dim = 0; dim < iteration.num_outer_dims; ++dim) programs *= iteration.outer_extents[dim];
  check_grid(row.name, programs, target);
  return programs;
}

ops::ScanIteration iterate(const Geometry& geometry, const Tiling& tiling, const Target& target) {
  ops::ScanIteration iteration{};
  iteration.length = geometry.length;
  iteration.lines = geometry.lines();
  iteration.line_blocks = ceil_div(iteration.lines, tiling.block_lines);
  for (int operand = 0; operand < ops::kScanOperands; ++operand) {
    iteration.length_strides[operand] = geometry.length_strides[operand];
    iteration.line_strides[operand] = geometry.line_stride(operand);
  }
  for (std::size_t dim = 1; dim < geometry.others.dims.size(); ++dim) {
    const int outer = iteration.num_outer_dims++;
    iteration.outer_extents[outer] = geometry.others.dims[dim].extent;
    for (int operand = 0; operand < ops::kScanOperands; ++operand)
      iteration.outer_strides[operand][outer] = geometry.others.dims[dim].strides[static_cast<std::size_t>(operand)];
  }

  const ChunkRule rule = is_cuda(target) ? kCudaChunks : kCpuChunks;
  const std::int64_t programs = iteration.line_blocks * geometry.outer_programs();
  iteration.chunk_length = geometry.length;
  if (programs <= rule.fewest) {
    const std::int64_t least = std::max(
        4 * tiling.block_length, rule.least_elements / std::min<std::int64_t>(tiling.block_lines, iteration.lines));
    const std::int64_t wanted = std::max(ceil_div(geometry.length, ceil_div(rule.wanted, programs)), least);
    iteration.chunk_length = ceil_div(wanted, tiling.block_length) * tiling.block_length;
  }
  iteration.chunks = ceil_div(geometry.length, iteration.chunk_length);
  return iteration;
}

std::vector<TemplateArgument> template_arguments(const ScanLines& call, const Tiling& tiling, std::int64_t contiguous,
                                                 DType out, DType in) {
  return {TypeName{fmt::format("kiln::ops::{}", call.row->functor)},
          call.scan.accumulator,
          tiling.block_lines,
          tiling.block_length,
          tiling.along_rows,
          contiguous,
          out,
          in};
}

LaunchPlan plan(const ScanLines& call, const Config& config, const Target& target) {
  const OpRow& row = *call.row;
  const Geometry& geometry = call.geometry;
  const DType accumulator = call.scan.accumulator;
  const Tiling tiling{config.at("BLOCK_LINES"), config.at("BLOCK_LENGTH"), geometry.along_rows};
  const ops::ScanIteration iteration = iterate(geometry, tiling, target);
  const std::int64_t* given_warps = config.find("num_warps");
  const auto num_warps = static_cast<std::int32_t>(given_warps == nullptr ? 1 : *given_warps);

  std::int64_t contiguous = 0;
  for (int operand = 0; operand < ops::kScanOperands; ++operand)
    if ((geometry.along_rows ? geometry.length_strides[operand] : geometry.line_stride(operand)) == 1)
      contiguous |= std::int64_t{1} << operand;

  KernelLaunch main;
  main.template_arguments = template_arguments(call, tiling, contiguous, call.scan.out, call.in);
  main.geometry = {{programs_of(row, iteration, target), 1, 1}, num_warps, 0};
  main.vector_width = static_cast<std::int32_t>(16 / std::max(itemsize_bytes(call.scan.out), itemsize_bytes(call.in)));
  KernelLaunch partials = main;
  common::KernelParameters parameters(main);
  parameters.written(0, call.scan.out).read(1, call.in);
  if (iteration.chunks == 1) {
    parameters.read(-1, accumulator).value(iteration);  // no chunk has one before it
    return {{std::move(main)}, {}};
  }
  parameters.read_workspace(0, accumulator).value(iteration);

  partials.kernel = "kiln::ops::scan_partials_kernel";
  common::KernelParameters(partials).written_workspace(0, accumulator).read(1, call.in).value(iteration);

  // The partials are scanned in place: a line of chunks for each line of the tensor.
  Geometry totals;
  totals.length = iteration.chunks;
  const std::int64_t all_lines = iteration.lines * geometry.outer_programs();
  totals.others.dims = {{all_lines, {iteration.chunks, iteration.chunks}}};
  totals.length_strides[ops::kScanOut] = totals.length_strides[ops::kScanIn] = 1;
  const Tiling row_tiling{1, is_cuda(target) ? std::int64_t{1024} : std::int64_t{64}, true};
  ops::ScanIteration whole = iterate(totals, row_tiling, target);
  whole.chunk_length = whole.length;
  whole.chunks = 1;
  KernelLaunch middle;
  middle.template_arguments = template_arguments(call, row_tiling, 3, accumulator, accumulator);
  middle.geometry = {{programs_of(row, whole, target), 1, 1}, static_cast<std::int32_t>(kDefaultWarps), 0};
  common::KernelParameters(middle)
      .written_workspace(0, accumulator)
      .read_workspace(0, accumulator)
      .read(-1, accumulator)
      .value(whole);

  const std::int64_t workspace_bytes = all_lines * iteration.chunks * itemsize_bytes(accumulator);
  return {{std::move(partials), std::move(middle), std::move(main)}, {workspace_bytes}};
}

}  // namespace

std::vector<Variant> scan_variants(const OpRow& row, const KernelSource& source) {
  const common::CallParser<ScanLines> parse([&row](const OpCall& call) {
    const ScanCall scan = resolve(row, call.inputs[0], call.attributes);
    return ScanLines{&row, scan, call.inputs[0].dtype, geometry_of(call, scan.axis)};
  });
  return {common::variant_of<ScanLines>(
      parse,
      {.name = "tiles",
       .doc = "a tile of lines at a time, from one end to the other; long lines where there are few go in chunks",
       .source = source,
       .kernel = "kiln::ops::scan_kernel",
       .space = space,
       .default_config = default_config,
       .plan = plan})};
}

}  // namespace kiln::scan
