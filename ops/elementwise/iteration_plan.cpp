#include "ops/elementwise/iteration_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <utility>

#include "core/errors.hpp"
#include "ops/grid.hpp"

namespace kiln::elementwise {
namespace {

/// Elements of the two tiled dimensions below which a tile is mostly empty: a GPU program has at least a few hundred
/// lanes to feed, a CPU program's tile is a few vectors.
constexpr std::int64_t kSmallestCudaTile = 256;
constexpr std::int64_t kSmallestCpuTile = 32;

std::int64_t magnitude(std::int64_t stride) {
  return stride < 0 ? -stride : stride;
}

/// Dimensions arrive sorted by the output's stride. Each must step over all that the inner ones cover; a layout that is
/// free of overlap yet fails this (interleaved as_strided views) is refused too, since proving it is a number-theoretic
/// search.
void check_output_overlap(const TensorView& output, const std::vector<CollapsedDim>& dims) {
  std::int64_t covered = 1;
  for (const CollapsedDim& dim : dims) {
    const std::int64_t stride = magnitude(dim.strides[0]);
    if (stride < covered)
      throw_value_error(fmt::format(
          "output {}: its elements overlap in memory (or interleave so that this cannot be ruled out); give an "
          "output whose elements each have their own place",
          describe(output)));
    covered += stride * (dim.extent - 1);
  }
}

bool merges(const CollapsedDim& inner, const CollapsedDim& outer, int num_operands) {
  for (int o = 0; o < num_operands; ++o) {
    const auto operand = static_cast<std::size_t>(o);
    if (outer.strides[operand] != inner.strides[operand] * inner.extent) return false;
  }
  return true;
}

ops::StrideKind kind_of(std::int64_t stride) {
  return stride == 0 ? ops::kStrideZero : (stride == 1 ? ops::kStrideOne : ops::kStrideAny);
}

}  // namespace

CollapsedIteration collapse(const TensorView& output, std::span<const TensorView> inputs) {
  CollapsedIteration iteration;
  iteration.num_operands = 1 + static_cast<int>(inputs.size());
  iteration.numel = output.numel();
  if (iteration.num_operands > ops::kMaxElementwiseOperands)
    throw InternalError(fmt::format("an elementwise op with {} inputs", inputs.size()));
  if (iteration.numel == 0) return iteration;

  std::vector<CollapsedDim> dims;
  for (int axis = output.ndim() - 1; axis >= 0; --axis) {
    CollapsedDim dim{output.shape[axis], {output.strides[axis]}};
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
  // Stable: dimensions that tie keep their order, the last axis innermost.
  std::stable_sort(dims.begin(), dims.end(), [](const CollapsedDim& a, const CollapsedDim& b) {
    return std::lexicographical_compare(a.strides.begin(), a.strides.end(), b.strides.begin(), b.strides.end(),
                                        [](std::int64_t s, std::int64_t t) { return magnitude(s) < magnitude(t); });
  });
  check_output_overlap(output, dims);

  for (const CollapsedDim& dim : dims) {
    if (!iteration.dims.empty() && merges(iteration.dims.back(), dim, iteration.num_operands))
      iteration.dims.back().extent *= dim.extent;
    else
      iteration.dims.push_back(dim);
  }
  return iteration;
}

bool is_contiguous(const CollapsedIteration& iteration) {
  if (iteration.dims.empty()) return true;
  if (iteration.dims.size() > 1) return false;
  const auto& strides = iteration.dims[0].strides;
  return std::all_of(strides.begin(), strides.begin() + iteration.num_operands,
                     [](std::int64_t stride) { return stride == 1; });
}

int row_dim(const CollapsedIteration& iteration) {
  if (iteration.dims.size() < 2) return 0;
  for (int o = 1; o < iteration.num_operands; ++o) {
    const auto operand = static_cast<std::size_t>(o);
    if (magnitude(iteration.dims[0].strides[operand]) <= 1) continue;
    for (std::size_t d = 1; d < iteration.dims.size(); ++d)
      if (magnitude(iteration.dims[d].strides[operand]) == 1) return static_cast<int>(d);
  }
  return 1;
}

/// Whether an indexed kernel's 32-bit offsets reach every element.
bool fits_in_32_bits(const CollapsedIteration& iteration) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (iteration.numel > kMost) return false;
  for (int o = 0; o < iteration.num_operands; ++o) {
    std::int64_t reach = 0;
    for (const CollapsedDim& dim : iteration.dims) {
      const std::int64_t stride = std::abs(dim.strides[static_cast<std::size_t>(o)]);
      if (stride > kMost) return false;
      reach += stride * (dim.extent - 1);  // both below 2^31, so the sum of at most kMaxRank products stays in 64 bits
    }
    if (reach > kMost) return false;
  }
  return true;
}

bool prefers_indexed(const CollapsedIteration& iteration, DeviceType device) {
  if (iteration.dims.size() < 3 || !fits_in_32_bits(iteration)) return false;
  const std::int64_t rows = iteration.dims[static_cast<std::size_t>(row_dim(iteration))].extent;
  return iteration.dims[0].extent * rows < (device == DeviceType::cuda ? kSmallestCudaTile : kSmallestCpuTile);
}

std::int64_t stride_kinds(const CollapsedIteration& iteration) {
  std::int64_t kinds = 0;
  for (int o = 0; o < iteration.num_operands; ++o) {
    const std::int64_t stride = iteration.dims.empty() ? 1 : iteration.dims[0].strides[static_cast<std::size_t>(o)];
    kinds |= static_cast<std::int64_t>(kind_of(stride)) << (2 * o);
  }
  return kinds;
}

ops::StridedIteration strided_iteration(const CollapsedIteration& iteration, std::int64_t block_m,
                                        std::int64_t block_n) {
  ops::StridedIteration result{};
  const int row = row_dim(iteration);
  const CollapsedDim unit{1, {1, 1, 1, 1}};
  const CollapsedDim& columns = iteration.dims.empty() ? unit : iteration.dims[0];
  const CollapsedDim no_rows{1, {}};
  const CollapsedDim& rows = row == 0 ? no_rows : iteration.dims[static_cast<std::size_t>(row)];
  result.rows = iteration.numel == 0 ? 0 : rows.extent;
  result.columns = iteration.numel == 0 ? 0 : columns.extent;
  result.row_blocks = ceil_div(result.rows, block_m);
  result.column_blocks = ceil_div(result.columns, block_n);
  for (int o = 0; o < iteration.num_operands; ++o) {
    result.row_strides[o] = rows.strides[static_cast<std::size_t>(o)];
    result.column_strides[o] = columns.strides[static_cast<std::size_t>(o)];
  }
  for (std::size_t d = 1; d < iteration.dims.size(); ++d) {
    if (static_cast<int>(d) == row) continue;
    const CollapsedDim& dim = iteration.dims[d];
    result.outer_extents[result.num_outer_dims] = dim.extent;
    for (int o = 0; o < iteration.num_operands; ++o)
      result.outer_strides[o][result.num_outer_dims] = dim.strides[static_cast<std::size_t>(o)];
    ++result.num_outer_dims;
  }
  return result;
}

std::int64_t num_programs(const ops::StridedIteration& iteration) {
  std::int64_t programs = iteration.row_blocks * iteration.column_blocks;
  for (int d = 0; d < iteration.num_outer_dims; ++d) programs *= iteration.outer_extents[d];
  return programs;
}

ops::IndexedIteration indexed_iteration(const CollapsedIteration& iteration) {
  if (!fits_in_32_bits(iteration))
    throw InternalError(
        fmt::format("an indexed iteration over {} elements does not fit its 32-bit offsets", iteration.numel));
  ops::IndexedIteration result{};
  result.n = iteration.numel;
  result.num_dims = static_cast<int>(iteration.dims.size());
  for (int d = 0; d < result.num_dims; ++d) {
    const CollapsedDim& dim = iteration.dims[static_cast<std::size_t>(d)];
    const auto extent = static_cast<std::uint64_t>(dim.extent);
    const auto shift = static_cast<unsigned int>(std::bit_width(extent - 1));  // ceil(log2(extent))
    result.extents[d] = static_cast<unsigned int>(extent);
    result.shifts[d] = shift;
    result.multipliers[d] =
        static_cast<unsigned int>((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - extent) / extent + 1);
    for (int o = 0; o < iteration.num_operands; ++o)
      result.strides[o][d] = static_cast<int>(dim.strides[static_cast<std::size_t>(o)]);
  }
  return result;
}

}  // namespace kiln::elementwise
