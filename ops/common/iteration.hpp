#pragma once

// Included by kernels and by the host that fills these structs in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// Most tensors that a strided walk steps through together: one output, up to three inputs.
inline constexpr int kMaxWalkOperands = 4;
/// Most dimensions outside a strided kernel's tile: kMaxRank - 2.
inline constexpr int kMaxOuterDims = 10;
/// Most dimensions of an indexed kernel: kMaxRank.
inline constexpr int kMaxIndexedDims = 12;

/// How an operand moves along a strided kernel's inner dimension, two bits each in STRIDE_KINDS, operand 0 (the output)
/// lowest.
enum StrideKind { kStrideZero = 0, kStrideOne = 1, kStrideAny = 2 };

/// Operand o reads element (outer..., row, column) at outer . outer_strides[o] + row * row_strides[o] + column *
/// column_strides[o], strides in elements. Program p covers column block p % column_blocks, row block (p /
/// column_blocks) % row_blocks, outer index p / (column_blocks * row_blocks), which outer_extents split with dimension
/// 0 fastest. Programs number fewer than 2^31 on the GPU (the grid's limit); on the CPU any number.
struct StridedIteration {
  long long rows, columns;
  long long row_blocks, column_blocks;
  long long block_rows, block_columns;  ///< of a program; on a CPU it goes through them in tiles
  int num_outer_dims;
  long long outer_extents[kMaxOuterDims];
  long long outer_strides[kMaxWalkOperands][kMaxOuterDims];
  long long row_strides[kMaxWalkOperands];
  long long column_strides[kMaxWalkOperands];
};

/// Linear element index -> coordinates with dimension 0 fastest -> operand offsets, per element. For shapes whose two
/// inner dimensions would leave most of a tile empty; at most 2^31 - 1 elements, and no operand reaches further than
/// that from its first. Division is by multiplication: with d = extent, shift = ceil(log2 d) and multiplier =
/// floor(2^32 * (2^shift - d) / d) + 1, the quotient of n < 2^31 is (umulhi(n, multiplier) + n) >> shift (Granlund and
/// Montgomery, "Division by invariant integers using multiplication", 1994).
struct IndexedIteration {
  long long n;
  int num_dims;
  unsigned int extents[kMaxIndexedDims];
  unsigned int multipliers[kMaxIndexedDims];
  unsigned int shifts[kMaxIndexedDims];
  int strides[kMaxWalkOperands][kMaxIndexedDims];
};

/// Lines of `length` elements along one axis. Line l starts where the outer indices that l counts out, dimension 0
/// fastest, put it; `steps` are between its elements, for the output and then each input. Strides in elements.
struct LineIteration {
  long long length;
  long long steps[kMaxWalkOperands];
  int num_dims;
  long long extents[kMaxIndexedDims];
  long long strides[kMaxWalkOperands][kMaxIndexedDims];
};

}  // namespace kiln::ops
