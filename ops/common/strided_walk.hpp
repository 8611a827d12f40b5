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

/// Whether the two tiled dimensions leave most of a tile empty, so that iterating element by element is cheaper.
bool prefers_indexed(const StridedWalk& walk, DeviceType device);

/// Two bits per operand, see ops::StrideKind.
std::int64_t stride_kinds(const StridedWalk& walk);

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
