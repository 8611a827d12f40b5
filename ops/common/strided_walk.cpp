#include "ops/common/strided_walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/errors.hpp"
#include "ops/common/block_choice.hpp"
#include "ops/common/grid.hpp"

namespace kiln::common {
namespace {

/// Elements of the two tiled dimensions below which a tile is mostly empty: a GPU program has at least a few hundred
/// lanes to feed, a CPU program's tile is a few vectors.
constexpr std::int64_t kSmallestCudaTile = 256;
constexpr std::int64_t kSmallestCpuTile = 32;
/// Columns of a GPU's tile, and how full rows of such tiles are at least where coordinates for each element, a dozen
/// instructions, are not worth while.
constexpr std::int64_t kNarrowestCudaRow = 16, kWidestCudaRow = 1024;
constexpr double kFullEnough = 0.9;

/// Dimensions arrive sorted by the output's stride. Each must step over all that the inner ones cover; a layout that is
/// free of overlap yet fails this (interleaved as_strided views) is refused too, since proving it is a number-theoretic
/// search.
void check_output_overlap(const TensorView& output, const std::vector<StridedDim>& dims) {
  std::int64_t covered = 1;
  for (const StridedDim& dim : dims) {
    const std::int64_t stride = magnitude(dim.strides[0]);
    if (stride < covered)
      throw_value_error(fmt::format(
          "output {}: its elements overlap in memory (or interleave so that this cannot be ruled out); give an "
          "output whose elements each have their own place",
          describe(output)));
    covered += stride * (dim.extent - 1);
  }
}

ops::StrideKind kind_of(std::int64_t stride) {
  return stride == 0 ? ops::kStrideZero : (stride == 1 ? ops::kStrideOne : ops::kStrideAny);
}

}  // namespace

TensorView without_axis(const TensorView& view, int axis) {
  TensorView rest = view;
  rest.shape = rest.strides = Dims();
  for (int a = 0; a < view.ndim(); ++a) {
    if (a == axis) continue;
    rest.shape.push_back(view.shape[a]);
    rest.strides.push_back(view.strides[a]);
  }
  return rest;
}

StridedWalk strided_walk(const TensorView& output, std::span<const TensorView> inputs) {
  StridedWalk walk;
  walk.num_operands = 1 + static_cast<int>(inputs.size());
  walk.numel = output.numel();
  if (walk.num_operands > ops::kMaxWalkOperands)
    throw InternalError(fmt::format("an elementwise op with {} inputs", inputs.size()));
  if (walk.numel == 0) return walk;

  std::vector<StridedDim> dims;
  for (int axis = output.ndim() - 1; axis >= 0; --axis) {
    StridedDim dim{output.shape[axis], {output.strides[axis]}};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int input_axis = axis - (output.ndim() - inputs[i].ndim());
      if (input_axis < 0) continue;
      const std::int64_t extent = inputs[i].shape[input_axis];
      if (extent != 1 && extent != dim.extent)
        throw InternalError(
            fmt::format("input {} does not broadcast to output {}", describe(inputs[i]), describe(output)));
      if (extent != 1) dim.strides[i + 1] = inputs[i].strides[input_axis];
    }
    if (dim.extent != 1) dims.push_back(dim);
  }
  // The last axis is innermost of those that tie.
  sort_innermost_first(dims, [](const StridedDim& dim) {
    std::array<std::int64_t, ops::kMaxWalkOperands> magnitudes;
    std::transform(dim.strides.begin(), dim.strides.end(), magnitudes.begin(), magnitude);
    return magnitudes;
  });
  check_output_overlap(output, dims);
  walk.dims = merged(dims);
  return walk;
}

bool is_contiguous(const StridedWalk& walk) {
  if (walk.dims.empty()) return true;
  if (walk.dims.size() > 1) return false;
  const auto& strides = walk.dims[0].strides;
  return std::all_of(strides.begin(), strides.begin() + walk.num_operands,
                     [](std::int64_t stride) { return stride == 1; });
}

int row_dim(const StridedWalk& walk) {
  if (walk.dims.size() < 2) return 0;
  for (int o = 1; o < walk.num_operands; ++o) {
    const auto operand = static_cast<std::size_t>(o);
    if (magnitude(walk.dims[0].strides[operand]) <= 1) continue;
    for (std::size_t d = 1; d < walk.dims.size(); ++d)
      if (magnitude(walk.dims[d].strides[operand]) == 1) return static_cast<int>(d);
  }
  return 1;
}

/// Whether an indexed kernel's 32-bit offsets reach every element.
bool fits_in_32_bits(const StridedWalk& walk) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (walk.numel > kMost) return false;
  for (int o = 0; o < walk.num_operands; ++o) {
    std::int64_t reach = 0;
    for (const StridedDim& dim : walk.dims) {
      const std::int64_t stride = magnitude(dim.strides[static_cast<std::size_t>(o)]);
      if (stride > kMost) return false;
      reach += stride * (dim.extent - 1);  // both below 2^31, so the sum of at most kMaxRank products stays in 64 bits
    }
    if (reach > kMost) return false;
  }
  return true;
}

std::int64_t linear_operands(const StridedWalk& walk) {
  std::int64_t operands = 0;
  for (int o = 0; o < walk.num_operands; ++o) {
    std::int64_t stride = 1;
    bool is_linear = true;
    for (const StridedDim& dim : walk.dims) {
      is_linear = is_linear && dim.strides[static_cast<std::size_t>(o)] == stride;
      stride *= dim.extent;
    }
    if (is_linear) operands |= std::int64_t{1} << o;
  }
  return operands;
}

bool linear_but_for_broadcasts(const StridedWalk& walk) {
  const std::int64_t linear = linear_operands(walk);
  for (int o = 0; o < walk.num_operands; ++o) {
    if ((linear >> o & 1) != 0) continue;
    const auto stride_of = [o](const StridedDim& dim) { return dim.strides[static_cast<std::size_t>(o)]; };
    const auto is_repeated = [&](const StridedDim& dim) { return stride_of(dim) == 0; };
    if (std::none_of(walk.dims.begin(), walk.dims.end(), is_repeated) || magnitude(stride_of(walk.dims[0])) > 1)
      return false;
  }
  return true;
}

bool rows_keep_alignment(const StridedWalk& walk, std::int64_t width) {
  for (int o = 0; o < walk.num_operands; ++o) {
    const auto operand = static_cast<std::size_t>(o);
    if (walk.dims.empty() || walk.dims[0].strides[operand] != 1) continue;
    for (std::size_t d = 1; d < walk.dims.size(); ++d)
      if (walk.dims[d].strides[operand] % width != 0) return false;
  }
  return true;
}

bool prefers_indexed(const StridedWalk& walk, DeviceType device, std::int64_t width) {
  if (walk.dims.size() < 2 || !fits_in_32_bits(walk)) return false;
  const std::int64_t columns = walk.dims[0].extent;
  const std::int64_t rows = walk.dims[static_cast<std::size_t>(row_dim(walk))].extent;
  if (walk.dims.size() > 2 && columns * rows < (device == DeviceType::cuda ? kSmallestCudaTile : kSmallestCpuTile))
    return true;
  if (device != DeviceType::cuda || !linear_but_for_broadcasts(walk)) return false;
  const std::int64_t block = block_over(columns, {.least = kNarrowestCudaRow, .most = kWidestCudaRow});
  const double full = static_cast<double>(columns) / static_cast<double>(ceil_div(columns, block) * block);
  return full < kFullEnough || !rows_keep_alignment(walk, width);
}

std::int64_t stride_kinds(const StridedWalk& walk) {
  std::int64_t kinds = 0;
  for (int o = 0; o < walk.num_operands; ++o) {
    const std::int64_t stride = walk.dims.empty() ? 1 : walk.dims[0].strides[static_cast<std::size_t>(o)];
    kinds |= static_cast<std::int64_t>(kind_of(stride)) << (2 * o);
  }
  return kinds;
}

std::int64_t has_long_rows(const StridedWalk& walk, std::int64_t width) {
  return !walk.dims.empty() && walk.dims[0].extent >= width ? 1 : 0;
}

ops::StridedIteration strided_iteration(const StridedWalk& walk, std::int64_t block_m, std::int64_t block_n) {
  ops::StridedIteration result{};
  const int row = row_dim(walk);
  const StridedDim unit{1, {1, 1, 1, 1}};
  const StridedDim& columns = walk.dims.empty() ? unit : walk.dims[0];
  const StridedDim no_rows{1, {}};
  const StridedDim& rows = row == 0 ? no_rows : walk.dims[static_cast<std::size_t>(row)];
  result.rows = walk.numel == 0 ? 0 : rows.extent;
  result.columns = walk.numel == 0 ? 0 : columns.extent;
  result.block_rows = block_m;
  result.block_columns = block_n;
  result.row_blocks = ceil_div(result.rows, block_m);
  result.column_blocks = ceil_div(result.columns, block_n);
  for (int o = 0; o < walk.num_operands; ++o) {
    result.row_strides[o] = rows.strides[static_cast<std::size_t>(o)];
    result.column_strides[o] = columns.strides[static_cast<std::size_t>(o)];
  }
  for (std::size_t d = 1; d < walk.dims.size(); ++d) {
    if (static_cast<int>(d) == row) continue;
    const StridedDim& dim = walk.dims[d];
    result.outer_extents[result.num_outer_dims] = dim.extent;
    for (int o = 0; o < walk.num_operands; ++o)
      result.outer_strides[o][result.num_outer_dims] = dim.strides[static_cast<std::size_t>(o)];
    ++result.num_outer_dims;
  }
  return result;
}

std::int64_t num_programs(const ops::StridedIteration& walk) {
  std::int64_t programs = walk.row_blocks * walk.column_blocks;
  for (int d = 0; d < walk.num_outer_dims; ++d) programs *= walk.outer_extents[d];
  return programs;
}

ops::IndexedIteration indexed_iteration(const StridedWalk& walk) {
  if (!fits_in_32_bits(walk))
    throw InternalError(
        fmt::format("an indexed iteration over {} elements does not fit its 32-bit offsets", walk.numel));
  ops::IndexedIteration result{};
  result.n = walk.numel;
  result.num_dims = static_cast<int>(walk.dims.size());
  for (int d = 0; d < result.num_dims; ++d) {
    const StridedDim& dim = walk.dims[static_cast<std::size_t>(d)];
    const auto extent = static_cast<std::uint64_t>(dim.extent);
    const auto shift = static_cast<unsigned int>(std::bit_width(extent - 1));  // ceil(log2(extent))
    result.extents[d] = static_cast<unsigned int>(extent);
    result.shifts[d] = shift;
    result.multipliers[d] =
        static_cast<unsigned int>((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - extent) / extent + 1);
    for (int o = 0; o < walk.num_operands; ++o)
      result.strides[o][d] = static_cast<int>(dim.strides[static_cast<std::size_t>(o)]);
  }
  return result;
}

ops::LineIteration line_iteration(const TensorView& output, std::span<const TensorView> inputs, int axis) {
  ops::LineIteration result{};
  std::vector<TensorView> starts;
  result.length = output.shape[axis];
  result.steps[0] = output.strides[axis];
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    result.steps[i + 1] = inputs[i].strides[axis];
    starts.push_back(without_axis(inputs[i], axis));
  }
  const StridedWalk walk = strided_walk(without_axis(output, axis), starts);
  for (const StridedDim& dim : walk.dims) {
    result.extents[result.num_dims] = dim.extent;
    for (int o = 0; o < walk.num_operands; ++o)
      result.strides[o][result.num_dims] = dim.strides[static_cast<std::size_t>(o)];
    ++result.num_dims;
  }
  return result;
}

std::int64_t num_lines(const ops::LineIteration& iteration) {
  std::int64_t lines = 1;
  for (int dim = 0; dim < iteration.num_dims; ++dim) lines *= iteration.extents[dim];
  return lines;
}

}  // namespace kiln::common
