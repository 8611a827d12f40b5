#pragma once

// Included by kernels and by the host that fills these structs in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// kMaxRank without rows and columns.
inline constexpr int kMaxMatmulBatchDims = 10;

/// The matrices of a product, in the order of their strides below.
enum MatmulMatrix { kMatmulA, kMatmulB, kMatmulAddend, kMatmulOut, kMatmulMatrices };

/// Products that kernels of the CPU add up one after the other, to a lane; the sums of more are sums of such sums,
/// whose rounding errors grow with their number and not with k.
inline constexpr int kPartOfK = 256;
/// Rows of a panel of b in memory come in multiples of this: packing works in squares.
inline constexpr int kPanelRows = 16;

/// How the epilogue's addend lies over the output.
enum MatmulAddend {
  kNoAddend,
  kRowAddend,   ///< one contiguous row for all rows: a bias
  kFullAddend,  ///< any strides
};

/// out (m x n) = a (m x k) times b (k x n), for every matrix of a batch. Strides in elements; batch dimensions are
/// listed with the fastest first. Tile t of the grid's axis 0 is tile t % (row_blocks * column_blocks) of matrix t /
/// (row_blocks * column_blocks); axis 1 is a part of k.
struct MatmulIteration {
  long long m, n, k;
  long long row_strides[kMatmulMatrices];
  long long column_strides[kMatmulMatrices];
  long long row_blocks, column_blocks;
  long long tiles;         ///< of all matrices
  long long k_per_split;   ///< of axis 1; a multiple of BLOCK_K where there are several
  long long split_stride;  ///< elements between the partial results of one part of k and the next
  long long num_splits;
  int num_batch_dims;
  long long batch_extents[kMaxMatmulBatchDims];
  long long batch_strides[kMatmulMatrices][kMaxMatmulBatchDims];
};

/// Elements from one row of partial sums to the next: whole packets of 16 bytes, so that rows of any number of columns
/// are read by packets.
constexpr long long matmul_partial_pitch(long long n, int element_bytes) {
  const long long packet = 16 / element_bytes;
  return (n + packet - 1) / packet * packet;
}

/// Numbers of an epilogue, in the type it computes in.
template <typename Compute>
struct MatmulScalars {
  Compute alpha, beta;
};

}  // namespace kiln::ops
