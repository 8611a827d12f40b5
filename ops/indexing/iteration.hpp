#pragma once

// Included by kernels and by the host that fills this struct in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

inline constexpr int kIndexingOperands = 3;
/// Most dimensions outside a tile: kMaxRank - 2.
inline constexpr int kMaxIndexingOuterDims = 10;

/// Element (outer..., row, column) of operand o lies at outer . outer_strides[o] + row * row_strides[o] + column *
/// column_strides[o], strides in elements; the operand that is indexed has stride 0 along the indexed dimension, and an
/// index of i, where 0 <= i < extent, moves it by i * stride. Operands of gather: out, index, x, and x is indexed; of
/// scatter_add: out, index, src, and out is indexed; of copy: out, x.
///
/// Program p covers column block p % column_blocks, row block (p / column_blocks) % row_blocks, outer index p /
/// (column_blocks * row_blocks), which outer_extents split with dimension 0 fastest.
struct IndexingIteration {
  long long rows, columns;
  long long row_blocks, column_blocks;
  long long extent, stride;
  long long row_strides[kIndexingOperands];
  long long column_strides[kIndexingOperands];
  int num_outer_dims;
  long long outer_extents[kMaxIndexingOuterDims];
  long long outer_strides[kIndexingOperands][kMaxIndexingOuterDims];
};

}  // namespace kiln::ops
