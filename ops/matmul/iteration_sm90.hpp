#pragma once

// Included by the kernel and by the host that launches it, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// Division by a number that is known ahead: x / divisor = (x * multiplier) >> (32 + shift) for 0 <= x < 2^31
/// (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994). A divisor of 1 has the
/// multiplier 0 and x itself as its quotient.
struct MatmulSm90Divisor {
  int divisor;
  unsigned int multiplier;
  int shift;
};
constexpr MatmulSm90Divisor matmul_sm90_divisor(int divisor) {
  int bits = 0;
  while ((1LL << bits) < divisor) ++bits;
  if (bits == 0) return {divisor, 0, 0};
  // 2^(31 + bits) / divisor, rounded up, fits in 32 bits and is exact for numbers of 31 bits.
  return {divisor,
          static_cast<unsigned int>(((1ULL << (31 + bits)) + static_cast<unsigned long long>(divisor) - 1) /
                                    static_cast<unsigned long long>(divisor)),
          bits - 1};
}

/// Clusters of a grid seem to go to an H200's parts (GPCs) in turn. Where a few clusters share all that they read,
/// those that start so many apart take neighbouring tiles, so that one part reads them: of 1 to 33, this number is the
/// best.
inline constexpr int kMatmulSm90Gpcs = 8;

/// Tiles of a block, and of its neighbours in a cluster.
struct MatmulSm90TileShape {
  int block_m, block_n, cluster_m, cluster_n;
};

/// What a kernel of kernel_sm90.cuh takes beside its tensor maps. Blocks of a cluster work on neighbouring tiles, so
/// tiles are counted in clusters.
struct MatmulSm90Iteration {
  int tiles;        ///< of all matrices
  int whole_tiles;  ///< of these, the first, which clusters take one after the other; they share the others
  int k_blocks;     ///< of 128 bytes
  /// Of the shared tiles' blocks of k, one tile behind the other, each team has so many; the last may have fewer.
  int share;
  MatmulSm90Divisor team;       ///< clusters that work on the same blocks of k of as many neighbouring shared tiles
  MatmulSm90Divisor k_divisor;  ///< by k_blocks
  /// Tiles of a matrix, and of a band: so many cluster rows are walked down before the next cluster column; the last
  /// band may have fewer.
  MatmulSm90Divisor matrix, band, band_rows, last_band_rows;
  int last_band;
  int spreads;           ///< 1: see kMatmulSm90Gpcs
  int a_batch, b_batch;  ///< 1 where the operand has a matrix of its own for each batch, else 0
  int m, n;
  long long out_strides[3];  ///< rows, columns, batches, in elements; for outputs without a tensor map
  long long addend_strides[3];
};

}  // namespace kiln::ops
