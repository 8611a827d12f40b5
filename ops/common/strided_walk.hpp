#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "core/tensor.hpp"
#include "ops/common/iteration.hpp"
#include "ops/common/walk_dim.hpp"

namespace kiln::common {

/// A dimension of a walk; the output's stride first.
using StridedDim = WalkDim<ops::kMaxWalkOperands>;

/// The output's index space with its dimensions sorted (innermost first, by the output's strides), those of extent 1
/// dropped and those that every operand runs through as one merged.
struct StridedWalk {
  int num_operands = 0;  ///< the output and the inputs
  std::int64_t numel = 0;
  std::vector<StridedDim> dims;
};

/// Inputs broadcast to the output's shape. UsageError(value) for an output whose elements share memory.
StridedWalk strided_walk(const TensorView& output, std::span<const TensorView> inputs);

/// A view of what lies at index 0 of an axis.
TensorView without_axis(const TensorView& view, int axis);

/// Whether every operand is one dense run in the same order.
bool is_contiguous(const StridedWalk& walk);

/// The dimension beside the innermost that a 2-D tile should span: where an input that strides along the innermost
/// dimension is dense, else the second. 0 when there is only one.
int row_dim(const StridedWalk& walk);

/// A bit for each operand that lies in the walk's order without gaps, the output's lowest.
std::int64_t linear_operands(const StridedWalk& walk);
/// Whether all others are broadcast, and neighbours of one element lie beside it or are it: what they are read from is
/// read more than once, and whole.
bool linear_but_for_broadcasts(const StridedWalk& walk);

/// Whether rows start at multiples of `width` elements in all operands that are dense along the innermost dimension,
/// if the first one does.
bool rows_keep_alignment(const StridedWalk& walk, std::int64_t width);

/// Whether iterating element by element is cheaper than in two-dimensional tiles: where these would be mostly empty, or
/// on a GPU their rows too short or off the addresses of accesses of `width` elements, while all that is large is
/// linear.
bool prefers_indexed(const StridedWalk& walk, DeviceType device, std::int64_t width);

/// Two bits per operand, see ops::StrideKind.
std::int64_t stride_kinds(const StridedWalk& walk);

/// 1 where of `width` neighbouring elements no more than two rows have a part, else 0 (see ops::Counting).
std::int64_t has_long_rows(const StridedWalk& walk, std::int64_t width);

/// For programs of block_m rows by block_n columns.
ops::StridedIteration strided_iteration(const StridedWalk& walk, std::int64_t block_m, std::int64_t block_n);
/// Programs of a strided kernel.
std::int64_t num_programs(const ops::StridedIteration& iteration);

/// At most 2^31 - 1 elements (InternalError above).
ops::IndexedIteration indexed_iteration(const StridedWalk& walk);

/// The lines along `axis`, of tensors that have one shape.
ops::LineIteration line_iteration(const TensorView& output, std::span<const TensorView> inputs, int axis);
std::int64_t num_lines(const ops::LineIteration& iteration);

}  // namespace kiln::common
