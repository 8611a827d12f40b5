#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "core/tensor.hpp"
#include "ops/elementwise/iteration.hpp"

namespace kiln::elementwise {

/// A dimension that all operands step through together; strides in elements, the output's first.
struct CollapsedDim {
  std::int64_t extent;
  std::array<std::int64_t, ops::kMaxElementwiseOperands> strides;
};

/// The output's index space with its dimensions sorted (innermost first, by the output's strides), those of extent 1
/// dropped and those that every operand runs through as one merged.
struct CollapsedIteration {
  int num_operands = 0;  ///< the output and the inputs
  std::int64_t numel = 0;
  std::vector<CollapsedDim> dims;
};

/// Inputs broadcast to the output's shape. UsageError(value) for an output whose elements share memory.
CollapsedIteration collapse(const TensorView& output, std::span<const TensorView> inputs);

/// Whether every operand is one dense run in the same order.
bool is_contiguous(const CollapsedIteration& iteration);

/// The dimension beside the innermost that a 2-D tile should span: where an input that strides along the innermost
/// dimension is dense, else the second. 0 when there is only one.
int row_dim(const CollapsedIteration& iteration);

/// Whether the two tiled dimensions leave most of a tile empty, so that iterating element by element is cheaper.
bool prefers_indexed(const CollapsedIteration& iteration, DeviceType device);

/// Two bits per operand, see ops::StrideKind.
std::int64_t stride_kinds(const CollapsedIteration& iteration);

/// For tiles of block_m rows by block_n columns.
ops::StridedIteration strided_iteration(const CollapsedIteration& iteration, std::int64_t block_m,
                                        std::int64_t block_n);
/// Programs of a strided kernel.
std::int64_t num_programs(const ops::StridedIteration& iteration);

/// At most 2^31 - 1 elements (InternalError above).
ops::IndexedIteration indexed_iteration(const CollapsedIteration& iteration);

}  // namespace kiln::elementwise
