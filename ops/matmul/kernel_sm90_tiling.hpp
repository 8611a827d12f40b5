#pragma once

// Included by the kernel, whose template arguments these structs are, and by the host that names their values, so it
// includes nothing and uses only built-in types.

namespace kiln::ops {

/// How kernel_sm90.cuh cuts a product up.
struct MatmulSm90Tiling {
  int block_m, block_n;      ///< of a tile of the product, which a block works on
  int stages;                ///< of the ring of boxes in shared memory
  int cluster_m, cluster_n;  ///< so many blocks work on neighbouring tiles, and read what they share once
  int split_k;               ///< so many blocks work on parts of k of one tile, and add up in a fixed order
  int math_groups;           ///< warpgroups that multiply; they share a tile, row blocks after row blocks
  bool tile_each;            ///< each takes tiles of its own in turn instead, and stores while another multiplies

  constexpr int cluster_blocks() const { return cluster_m * cluster_n * split_k; }
  /// Math groups that share the rows of a tile.
  constexpr int sharing_groups() const { return tile_each ? 1 : math_groups; }
  /// Blocks of 64 rows of a math group.
  constexpr int row_blocks() const { return block_m / sharing_groups() / 64; }
  /// Columns of a tile that one block stores.
  constexpr int columns() const { return block_n / split_k; }
};

/// How the matrices of a product lie in memory.
struct MatmulSm90Layout {
  bool a_is_mn, b_is_mn;  ///< whether the operand is dense along m or n; else it is along k
  bool transposed;        ///< rows of the product are what lies contiguous in out
  bool out_is_mapped;     ///< out has a tensor map
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

  MatmulSm90Tiling tiling;

  constexpr int stage_bytes() const { return (tiling.block_m + tiling.block_n) * kRowBytes; }
  constexpr int stores() const { return tiling.stages * stage_bytes(); }
  /// A block that shares k has one tile, and few of its columns: they leave at once.
  constexpr int store_buffers() const { return tiling.split_k > 1 ? 1 : 2; }
  /// Partial sums from the cluster's other blocks.
  constexpr int parts() const { return stores() + tiling.math_groups * store_buffers() * kStoreBytes; }
  constexpr int part_bytes() const { return tiling.block_m * tiling.block_n * 4 / tiling.split_k; }
  /// A row of addends for each math group, 4 bytes each.
  constexpr int addends() const { return parts() + (tiling.split_k - 1) * part_bytes(); }
  constexpr int addend_row_bytes() const { return tiling.block_n * 4; }
  constexpr int barriers() const { return addends() + tiling.math_groups * addend_row_bytes(); }
  /// Columns of a transposed product, each of 64 elements, that a math group stores at once: as many as fit in both
  /// buffers together, if these are all, else in one of them.
  static constexpr int lines_at_once(int columns, int out_bytes) {
    return columns * 64 * out_bytes <= 2 * kStoreBytes ? columns : kStoreBytes / 64 / out_bytes;
  }
  constexpr int bytes() const { return barriers() + (2 * tiling.stages + 1) * kBarrierBytes; }
};

}  // namespace kiln::ops
