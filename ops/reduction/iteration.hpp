#pragma once

// Included by kernels and by the host that fills these structs in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// Most dimensions outside a tile on one side, kept or reduced: kMaxRank - 1.
inline constexpr int kMaxReductionDims = 11;
inline constexpr int kMaxReductionOutputs = 2;
/// Most numbers in a reducer's state.
inline constexpr int kMaxStateParts = 3;

/// Numbers that reducers read.
struct ReductionScalars {
  double divisor;   ///< mean: elements; var: elements less correction
  double exponent;  ///< norm's p
};

/// Strides in elements. A tile spans one kept and one reduced dimension; `kept_*` and `reduced_*` are those two, the
/// others are listed with the fastest first. The grid's axis 0 is kept block p % kept_blocks of outer kept index p /
/// kept_blocks; axis 1 is a piece of the reduced dimension, axis 2 a group of outer reduced indices: chunk axis 2 *
/// pieces + axis 1.
struct ReductionIteration {
  long long kept, reduced;
  long long kept_stride, reduced_stride;
  long long kept_blocks;
  long long kept_total;  ///< elements of an output
  long long pieces, piece_extent;
  long long outer_reduced, outer_reduced_per_chunk;
  long long chunks;
  long long input_offset;  ///< of element 0: dimensions with negative strides may be walked backwards
  /// Where a search for a place is spread out, so that all kept elements are parts of one output, the chunk kernel
  /// reads how far apart places in the whole are: along the reduced dimension here, along kept ones in the first
  /// output's strides.
  long long place_stride;
  long long output_strides[kMaxReductionOutputs];
  int num_outer_kept, num_outer_reduced;
  long long outer_kept_extents[kMaxReductionDims];
  long long outer_kept_strides[kMaxReductionDims];
  long long outer_output_strides[kMaxReductionOutputs][kMaxReductionDims];
  long long outer_reduced_extents[kMaxReductionDims];
  long long outer_reduced_strides[kMaxReductionDims];
  /// A dense matrix of narrow rows, or of rows off the addresses of wide accesses, is reduced as one whose rows are
  /// `fold` of its own; 1: as it is. Kept element k of the chunk kernel is then element k % fold_columns of the k /
  /// fold_columns'th of these, the last row has whatever is left of fold_elements in all, and chunk c has the states
  /// of chunks c * fold and on for the combining kernel.
  long long fold, fold_columns, fold_elements;
  /// Where the parts of a split reduction's states lie: part i of chunk c and kept element k is at part_bytes[i] + (c *
  /// kept_total + k) * its size.
  long long part_bytes[kMaxStateParts];
};

}  // namespace kiln::ops
