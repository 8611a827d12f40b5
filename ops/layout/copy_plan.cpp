#include "ops/layout/copy_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::layout {
namespace {

/// Below this extent of either tiled dimension a transposing tile is mostly empty.
constexpr std::int64_t kLeastTransposedExtent = 8;
/// Up to here a GPU has done with single elements before a tile has been through shared memory (H200: 222x17 f16 8.4
/// -> 4.0 us, 100x100 f32 5.3 -> 4.3, 888x17 4.8 -> 4.3; 30x1000 4.1 by tiles, 4.4 without).
constexpr std::int64_t kFewTransposed = 1 << 14;
/// Bytes of a tile that is cast on its way, which takes up to three times as much shared memory.
constexpr std::int64_t kMostCastBytes = 16 * 1024;
/// Where more than one tile in this many reaches over an edge, all are accessed element by element: the wide accesses
/// of full tiles do not make up for the way that the others take through shared memory.
constexpr std::int64_t kFullTilesPerPartial = 8;

bool casts(const Copy& copy) {
  return copy.out_dtype != copy.in_dtype;
}

/// What kernels move: the bits alone where dtypes agree.
DType moved_dtype(const Copy& copy, DType dtype) {
  return casts(copy) ? dtype : unsigned_dtype(itemsize_bytes(dtype));
}

/// A transposing tile: rows lie along the output's dense dimension, columns along the input's.
struct TransposedBlock {
  std::int64_t rows, columns;
};

TransposedBlock transposed_block(const Copy& copy, const Config& config, const Target& target) {
  if (!is_cuda(target)) return {config.at("BLOCK_M"), config.at("BLOCK_N")};
  return {config.at("ROW_BYTES") / widest_bytes(copy), config.at("TILE_BYTES") / config.at("ROW_BYTES")};
}

/// The multiple of bytes at which the output of two tiles meets (tl::copy_transposed); 0 where whole tiles do already.
std::int64_t seam_bytes(const Copy& copy, const Config& config) {
  // A tile has to write something beside what it shares.
  const std::int64_t seam = std::min(config.at("SEAM_BYTES"), config.at("ROW_BYTES") / 2);
  return seam < 16 || steps_by(copy, ops::kCopyOut, seam) ? 0 : seam;
}

/// Whether the output, dense in `dense_out`, steps from one element of the input's dense dimension to the next without
/// a gap, in rows that are not whole sectors.
bool interleaves(const Copy& copy, const common::StridedDim& dense_out, const common::StridedDim& dense_in) {
  const std::int64_t row_bytes = dense_out.extent * widest_bytes(copy);
  return !casts(copy) && dense_in.strides[ops::kCopyOut] == dense_out.extent && row_bytes <= kMostInterleavedBytes &&
         row_bytes % kSectorBytes != 0;
}

/// Here rows are the output's dense dimension: the two that elementwise kernels call columns and rows.
ops::CopyIteration turned_iteration(const Copy& copy, std::int64_t block_rows, std::int64_t block_columns) {
  ops::CopyIteration iteration = copy_iteration(copy, block_columns, block_rows);
  std::swap(iteration.rows, iteration.columns);
  std::swap(iteration.row_blocks, iteration.column_blocks);
  std::swap(iteration.block_rows, iteration.block_columns);
  std::swap(iteration.row_strides, iteration.column_strides);
  return iteration;
}

std::int64_t num_programs(const ops::CopyIteration& iteration) {
  std::int64_t programs = iteration.row_blocks * iteration.column_blocks;
  for (int dim = 0; dim < iteration.num_outer_dims; ++dim) programs *= iteration.outer_extents[dim];
  return programs;
}

}  // namespace

std::int64_t widest_bytes(const Copy& copy) {
  return std::max(itemsize_bytes(copy.out_dtype), itemsize_bytes(copy.in_dtype));
}

bool steps_by(const Copy& copy, ops::CopyOperand operand, std::int64_t bytes) {
  const std::int64_t size = itemsize_bytes(operand == ops::kCopyOut ? copy.out_dtype : copy.in_dtype);
  const std::int64_t offset = operand == ops::kCopyOut ? copy.out_offset : copy.in_offset;
  const auto& dims = copy.walk.dims;
  return offset * size % bytes == 0 && std::all_of(dims.begin(), dims.end(), [&](const common::StridedDim& dim) {
           const std::int64_t stride = dim.strides[static_cast<std::size_t>(operand)];
           return stride == 1 || stride * size % bytes == 0;
         });
}

ops::CopyIteration copy_iteration(const Copy& copy, std::int64_t block_rows, std::int64_t block_columns) {
  const ops::StridedIteration tiled = common::strided_iteration(copy.walk, block_rows, block_columns);
  ops::CopyIteration result{};
  result.rows = tiled.rows;
  result.columns = tiled.columns;
  result.row_blocks = tiled.row_blocks;
  result.column_blocks = tiled.column_blocks;
  result.block_rows = tiled.block_rows;
  result.block_columns = tiled.block_columns;
  result.offsets[ops::kCopyOut] = copy.out_offset;
  result.offsets[ops::kCopyIn] = copy.in_offset;
  result.num_outer_dims = tiled.num_outer_dims;
  std::copy_n(tiled.outer_extents, ops::kMaxOuterDims, result.outer_extents);
  for (int operand = 0; operand < ops::kCopyOperands; ++operand) {
    result.row_strides[operand] = tiled.row_strides[operand];
    result.column_strides[operand] = tiled.column_strides[operand];
    std::copy_n(tiled.outer_strides[operand], ops::kMaxOuterDims, result.outer_strides[operand]);
  }
  return result;
}

std::int64_t vector_width(const Copy& copy, const ops::CopyIteration& iteration, std::int64_t block_rows,
                          std::int64_t block_columns) {
  const std::int64_t tiles = iteration.row_blocks * iteration.column_blocks;
  const std::int64_t full_tiles = (iteration.rows / block_rows) * (iteration.columns / block_columns);
  if ((tiles - full_tiles) * kFullTilesPerPartial > tiles) return 1;
  std::int64_t width = 16 / widest_bytes(copy);
  bool any_dense = false;
  for (int operand = 0; operand < ops::kCopyOperands; ++operand) {
    if (iteration.column_strides[operand] != 1) continue;
    any_dense = true;
    const auto fits = [&](long long stride) { return stride % width == 0; };
    while (width > 1 &&
           !(fits(iteration.offsets[operand]) && (iteration.rows == 1 || fits(iteration.row_strides[operand])) &&
             std::all_of(iteration.outer_strides[operand], iteration.outer_strides[operand] + iteration.num_outer_dims,
                         fits)))
      width /= 2;
  }
  return any_dense ? width : 1;
}

Copy make_copy(const TensorView& out, const TensorView& in, std::int64_t out_offset) {
  Copy copy{out.dtype, in.dtype, out_offset, 0, {}};
  TensorView to = out, from = in;
  for (int axis = 0; axis < to.ndim(); ++axis) {
    if (to.strides[axis] >= 0 || to.shape[axis] < 2) continue;
    copy.out_offset += to.strides[axis] * (to.shape[axis] - 1);
    copy.in_offset += from.strides[axis] * (to.shape[axis] - 1);
    to.strides[axis] = -to.strides[axis];
    from.strides[axis] = -from.strides[axis];
  }
  copy.walk = common::strided_walk(to, std::span(&from, 1));
  return copy;
}

CopyKind kind_of(const Copy& copy, DeviceType device) {
  const common::StridedWalk& walk = copy.walk;
  if (common::is_contiguous(walk)) return CopyKind::contiguous;
  const int row = common::row_dim(walk);
  if (row > 0) {
    const common::StridedDim& dense_out = walk.dims[0];
    const common::StridedDim& dense_in = walk.dims[static_cast<std::size_t>(row)];
    if (dense_out.strides[ops::kCopyOut] == 1 && dense_in.strides[ops::kCopyIn] == 1 &&
        dense_out.strides[ops::kCopyIn] != 1 && dense_out.strides[ops::kCopyIn] != 0 &&
        std::min(dense_out.extent, dense_in.extent) >= kLeastTransposedExtent) {
      if (device != DeviceType::cuda) return CopyKind::transposed;
      if (interleaves(copy, dense_out, dense_in)) return CopyKind::interleaved;
      return walk.numel <= kFewTransposed ? CopyKind::strided : CopyKind::transposed;
    }
  }
  return common::prefers_indexed(walk, device, 16 / widest_bytes(copy)) ? CopyKind::indexed : CopyKind::strided;
}

std::string kind_name(CopyKind kind) {
  switch (kind) {
    case CopyKind::contiguous:
      return "contiguous";
    case CopyKind::interleaved:
      return "interleaved";
    case CopyKind::transposed:
      return "transposed";
    case CopyKind::indexed:
      return "indexed";
    case CopyKind::strided:
      break;
  }
  return "strided";
}

std::string kind_doc(CopyKind kind) {
  switch (kind) {
    case CopyKind::contiguous:
      return "both are dense in the same order: one linear run";
    case CopyKind::interleaved:
      return "an input of few rows whose columns follow one another in the output: turned in shared memory";
    case CopyKind::transposed:
      return "they are dense along different dimensions: tiles of both, turned in shared memory or in registers";
    case CopyKind::indexed:
      return "small inner dimensions: each element's coordinates are computed from its index";
    case CopyKind::strided:
      break;
  }
  return "any strides: 2-D tiles over the inner dimensions";
}

std::string kernel_name(CopyKind kind) {
  return "kiln::ops::copy_" + kind_name(kind) + "_kernel";
}

KernelLaunch make_launch(CopyKind kind, const std::string& op, const Copy& copy, const Config& config,
                         const Target& target, CopyDestination destination, int in_tensor) {
  const DType to = moved_dtype(copy, copy.out_dtype), from = moved_dtype(copy, copy.in_dtype);
  KernelLaunch launch;
  launch.kernel = kernel_name(kind);
  launch.template_arguments = {to, from};
  common::KernelParameters parameters(launch);
  if (destination.tensor >= 0)
    parameters.written(destination.tensor, to);
  else
    parameters.written_workspace(destination.workspace, to);
  parameters.read(in_tensor, from);
  if (const std::int64_t* num_warps = config.find("num_warps"))
    launch.geometry.num_warps = static_cast<std::int32_t>(*num_warps);
  std::int64_t programs = 0;
  const std::int64_t* const stream = config.find("STREAM");
  const std::int64_t streams = stream ? *stream : 0;
  if (kind == CopyKind::contiguous || kind == CopyKind::indexed) {
    const std::int64_t block_size = config.at("BLOCK_SIZE");
    launch.template_arguments.emplace_back(block_size);
    programs = ceil_div(copy.walk.numel, block_size);
    if (kind == CopyKind::indexed) {
      const ops::IndexedIteration iteration = common::indexed_iteration(copy.walk);
      const std::int64_t width = 16 / widest_bytes(copy);
      for (const std::int64_t argument : {common::linear_operands(copy.walk), std::int64_t{iteration.num_dims},
                                          common::stride_kinds(copy.walk), common::has_long_rows(copy.walk, width)})
        launch.template_arguments.emplace_back(argument);
      // Where some access of many elements is not wide, neighbouring threads shall touch neighbouring ones.
      launch.vector_width = common::linear_but_for_broadcasts(copy.walk) ? static_cast<std::int32_t>(width) : 1;
      parameters.value(iteration);
    } else {
      launch.template_arguments.emplace_back(streams);
      programs += streams;  // blocks that begin at lines of the cache are one more: see tl::cover_lines
      launch.vector_width = static_cast<std::int32_t>(16 / widest_bytes(copy));
      parameters.value(static_cast<long long>(copy.walk.numel));
    }
    parameters.value(static_cast<long long>(copy.out_offset));
    parameters.value(static_cast<long long>(copy.in_offset));
  } else if (kind == CopyKind::interleaved) {
    const std::int64_t tile_bytes = config.at("TILE_BYTES");
    launch.template_arguments = {to, tile_bytes};
    const std::int64_t rows = copy.walk.dims[0].extent;
    const std::int64_t columns = std::min(floor_power_of_two(tile_bytes / (rows * itemsize_bytes(to))),
                                          ceil_power_of_two(copy_iteration(copy, 1, 1).rows));
    const ops::CopyIteration iteration = turned_iteration(copy, rows, columns);
    programs = num_programs(iteration);
    parameters.value(iteration);
  } else if (kind == CopyKind::transposed) {
    const TransposedBlock block = transposed_block(copy, config, target);
    ops::CopyIteration iteration = turned_iteration(copy, block.rows, block.columns);
    if (casts(copy)) {
      launch.kernel = "kiln::ops::cast_transposed_kernel";
      // A tile's registers and shared memory: half of the largest block, and on the CPU a few vectors.
      const std::int64_t rows = is_cuda(target) ? block.rows : std::min<std::int64_t>(block.rows, 16);
      const std::int64_t columns = is_cuda(target) ? kMostCastBytes / config.at("ROW_BYTES") : 16;
      for (const std::int64_t extent : {block.rows, block.columns, rows, std::min(block.columns, columns)})
        launch.template_arguments.emplace_back(extent);
    } else {
      const std::int64_t size = itemsize_bytes(to);
      const bool straddling = is_cuda(target) && size < 4 && !steps_by(copy, ops::kCopyIn, 4);
      const std::int64_t seam = is_cuda(target) ? seam_bytes(copy, config) : 0;
      launch.template_arguments = {to, block.rows, block.columns, straddling, seam};
      // Windows are that much shorter than tiles, and may start up to an element less than that before their rows.
      if (seam > 0) iteration.row_blocks = ceil_div(iteration.rows + seam / size - 1, block.rows - seam / size);
    }
    programs = num_programs(iteration);
    parameters.value(iteration);
  } else {
    const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N");
    const ops::CopyIteration tiles = copy_iteration(copy, block_m, block_n);
    launch.vector_width = static_cast<std::int32_t>(vector_width(copy, tiles, block_m, block_n));
    common::ProgramExtents program{block_m, block_n};
    if (!is_cuda(target)) program = common::program_extents(tiles.rows, tiles.columns, program);
    const ops::CopyIteration iteration = copy_iteration(copy, program.rows, program.columns);
    for (const std::int64_t argument : {block_m, block_n, streams, common::stride_kinds(copy.walk)})
      launch.template_arguments.emplace_back(argument);
    programs = num_programs(iteration);
    parameters.value(iteration);
  }
  check_grid(op, programs, target);
  launch.geometry.grid = {programs, 1, 1};
  return launch;
}

}  // namespace kiln::layout
