#pragma once

// Included by kernels and by the host that fills this struct in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// Most dimensions beside a tile's two, kept or reduced: kMaxRank - 1.
inline constexpr int kMaxRowDims = 11;

/// How the programs of a row op walk over its tensors. The dimensions a result is normalized over are reduced, all
/// others kept. A tile runs along one kept and one reduced dimension; the other kept ones come from the program's
/// number, the other reduced ones are looped over, a segment for each of their indices. Strides are in elements.
template <int kOperands>
struct RowIteration {
  long long kept, kept_blocks;  ///< extent of the tile's kept dimension, and tiles along it
  long long reduced;            ///< extent of the tile's reduced dimension
  long long segments;           ///< product of segment_extents
  long long kept_strides[kOperands], reduced_strides[kOperands];
  int num_outer_dims, num_segment_dims;
  long long outer_extents[kMaxRowDims], outer_strides[kOperands][kMaxRowDims];
  long long segment_extents[kMaxRowDims], segment_strides[kOperands][kMaxRowDims];
};

/// How elements along a tile's columns lie in memory: apart by strides; side by side; so in rows, and as many of them,
/// that tiles are full; so in rows that may start anywhere and are taken one to a program, from the boundary of a wide
/// access of the output on.
enum RowColumns { kStridedColumns, kDenseColumns, kDenseWhole, kDenseAnywhere };

/// Operands of softmax.
enum SoftmaxOperand { kSoftmaxOut, kSoftmaxIn, kSoftmaxOperands };
/// Operands of layer_norm and rms_norm. Those a call leaves out have null pointers.
enum NormOperand { kNormOut, kNormResidualOut, kNormIn, kNormResidual, kNormWeight, kNormBias, kNormOperands };

}  // namespace kiln::ops
