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

/// What a kernel of kernel_sm90.cuh takes beside its tensor maps. Blocks of a cluster work on neighbouring tiles, so
/// tiles are counted in clusters.
struct MatmulSm90Iteration {
  int tiles;     ///< of all matrices
  int k_blocks;  ///< of 128 bytes
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

/// Elements of m (or n) in a row of 128 bytes of shared memory, or of 64, of an operand that lies along m (or n) and of
/// which a block asks for `extent`: the copy engine takes as long for 64 bytes as for 128.
constexpr int matmul_sm90_panel(int element_bytes, int extent) {
  return element_bytes == 1 && extent % 128 != 0 ? 64 : 128 / element_bytes;
}

/// Where things lie in the shared memory of kernel_sm90.cuh.
struct MatmulSm90Places {
  static constexpr int kRowBytes = 128;
  /// Where a math group puts 64 rows of 128 bytes of output; there are two, so that one leaves as the other fills.
  static constexpr int kStoreBytes = 64 * kRowBytes;
  static constexpr int kBarrierBytes = 8;

  int block_m, block_n, stages, split_k, math_groups;

  constexpr int stage_bytes() const { return (block_m + block_n) * kRowBytes; }
  constexpr int stores() const { return stages * stage_bytes(); }
  /// A block that shares k has one tile, and few of its columns: they leave at once.
  constexpr int store_buffers() const { return split_k > 1 ? 1 : 2; }
  /// Partial sums from the cluster's other blocks.
  constexpr int parts() const { return stores() + math_groups * store_buffers() * kStoreBytes; }
  constexpr int part_bytes() const { return block_m * block_n * 4 / split_k; }
  /// A row of addends for each math group, 4 bytes each.
  constexpr int addends() const { return parts() + (split_k - 1) * part_bytes(); }
  constexpr int addend_row_bytes() const { return block_n * 4; }
  constexpr int barriers() const { return addends() + math_groups * addend_row_bytes(); }
  /// Columns of a transposed product, each of 64 elements, that a math group stores at once: as many as fit in both
  /// buffers together, if these are all, else in one of them.
  static constexpr int lines_at_once(int columns, int out_bytes) {
    return columns * 64 * out_bytes <= 2 * kStoreBytes ? columns : kStoreBytes / 64 / out_bytes;
  }
  constexpr int bytes() const { return barriers() + (2 * stages + 1) * kBarrierBytes; }
};

}  // namespace kiln::ops
