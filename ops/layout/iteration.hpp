#pragma once

#include "ops/common/iteration.hpp"

// Included by kernels and by the host that fills the struct in, so it uses only built-in types.

namespace kiln::ops {

/// The two operands of a copy.
enum CopyOperand { kCopyOut = 0, kCopyIn = 1, kCopyOperands = 2 };

/// Operand o's element (outer..., row, column) is offsets[o] + outer . outer_strides[o] + row * row_strides[o] + column
/// * column_strides[o] elements from its data pointer. Program p covers row block p % row_blocks and column block (p /
/// row_blocks) % column_blocks where rows_first, else the column block first; then come the outer dimensions, dimension
/// 0 fastest.
struct CopyIteration {
  long long rows, columns;
  long long row_blocks, column_blocks;
  long long block_rows, block_columns;  ///< of a program; on a CPU it goes through them in tiles
  long long offsets[kCopyOperands];
  long long row_strides[kCopyOperands];
  long long column_strides[kCopyOperands];
  int num_outer_dims;
  long long outer_extents[kMaxOuterDims];
  long long outer_strides[kCopyOperands][kMaxOuterDims];
};

/// A copy of one tensor among several that a launch writes to parts of one output: rows that are dense in both, at
/// offsets + row * row_strides. Its programs begin at first_program, the column block first.
struct JoinedPiece {
  long long first_program;
  long long rows, columns;
  long long column_blocks;
  long long offsets[kCopyOperands];
  long long row_strides[kCopyOperands];
};
/// As many as a launch has parameters for beside the output.
inline constexpr int kMostJoinedPieces = 19;
struct JoinedIteration {
  JoinedPiece pieces[kMostJoinedPieces];
};

}  // namespace kiln::ops
