#pragma once

// Included by the kernel, whose template arguments these structs are, and by the host that names their values, so it
// includes nothing and uses only built-in types.

namespace kiln::ops {

/// How kernel_sm90.cuh cuts a product up.
struct MatmulSm90Tiling {
  int block_m, block_n;      ///< of a tile of the product, which a block works on
  int stages;                ///< of the ring of boxes in shared memory
  int cluster_m, cluster_n;  ///< so many blocks work on neighbouring tiles, and read what they share once
  int split_k;      ///< so many blocks work on parts of k of one tile, which its owners add up in a fixed order
  int math_groups;  ///< warpgroups that multiply; they share a tile, row blocks after row blocks
  bool tile_each;   ///< each takes tiles of its own in turn instead, and stores while another multiplies
  int resident;     ///< so many blocks run on one multiprocessor
  bool shares;      ///< clusters share k of tiles that would not occupy all of them, by way of memory

  constexpr int cluster_blocks() const { return cluster_m * cluster_n * split_k; }
  /// Math groups that share the rows of a tile.
  constexpr int sharing_groups() const { return tile_each ? 1 : math_groups; }
  /// Blocks of 64 rows of a math group.
  constexpr int row_blocks() const { return block_m / sharing_groups() / 64; }
  /// Blocks of those that work on one tile which add up and store equal parts of its columns, by eights.
  constexpr int owners() const {
    int blocks = split_k;
    while (block_n % (8 * blocks) != 0) --blocks;
    return blocks;
  }
  /// Columns of a tile that one owner stores.
  constexpr int columns() const { return block_n / owners(); }
};

/// The tile of a program that stores a piece of 64 rows.
constexpr MatmulSm90Tiling matmul_sm90_piece(int columns) {
  return {.block_m = 64,
          .block_n = columns,
          .stages = 0,
          .cluster_m = 1,
          .cluster_n = 1,
          .split_k = 1,
          .math_groups = 1,
          .tile_each = false,
          .resident = 1,
          .shares = false};
}

/// How the matrices of a product lie in memory.
struct MatmulSm90Layout {
  bool a_is_mn, b_is_mn;  ///< whether the operand is dense along m or n; else it is along k
  bool transposed;        ///< rows of the product are what lies contiguous in out
  bool out_is_mapped;     ///< out has a tensor map
};

/// Elements of m (or n) in a row of 128 bytes of shared memory, or of 64, of `extent` of an operand that lies along m
/// (or n): the copy engine takes as long for 64 bytes as for 128. Few columns of 16-bit types are rows of 32 or 64
/// bytes, which take less room.
constexpr int matmul_sm90_panel(int element_bytes, int extent) {
  if (element_bytes == 2 && (extent == 16 || extent == 32)) return extent;
  return element_bytes == 1 && extent % 128 != 0 ? 64 : 128 / element_bytes;
}
/// `extent` in whole panels: a product takes columns by sixteens, and reads as many of the last panel as it needs.
constexpr int matmul_sm90_panels_extent(int element_bytes, int extent) {
  const int panel = matmul_sm90_panel(element_bytes, extent);
  return (extent + panel - 1) / panel * panel;
}

/// Blocks among which the panels of an operand go round, of all that share it; so many of these as share a panel ask
/// for equal parts of its rows along k.
constexpr int matmul_sm90_panel_sharers(int panels, int sharers) {
  int divisor = sharers;
  while (panels % divisor != 0 || sharers % divisor != 0) --divisor;
  return divisor;
}

/// Rows along k of a box, of `rows` that a block asks for: at most 64, as many in each. The copy engine takes longer
/// for a row beyond the end of the tensor than for one that is there, so that boxes of such rows alone are not asked
/// for.
constexpr int matmul_sm90_box_rows(int rows) {
  int boxes = (rows + 63) / 64;
  while (rows % (8 * boxes) != 0) ++boxes;
  return rows / boxes;
}

/// Where things lie in the shared memory of kernel_sm90.cuh.
struct MatmulSm90Places {
  static constexpr int kRowBytes = 128;
  /// Where a math group puts 64 rows of 128 bytes of output; there are two, so that one leaves as the other fills.
  static constexpr int kStoreBytes = 64 * kRowBytes;
  static constexpr int kBarrierBytes = 8;

  MatmulSm90Tiling tiling;
  bool b_is_mn;  ///< see MatmulSm90Layout; b is of 16-bit types then

  /// An operand's row of 128 bytes along k is as large as 128 bytes' worth of k's rows of one column.
  constexpr int b_bytes() const {
    return (b_is_mn ? matmul_sm90_panels_extent(2, tiling.block_n) : tiling.block_n) * kRowBytes;
  }
  constexpr int stage_bytes() const { return tiling.block_m * kRowBytes + b_bytes(); }
  constexpr int stores() const { return tiling.stages * stage_bytes(); }
  /// A block that shares k has one tile, and few of its columns: they leave at once.
  constexpr int store_buffers() const { return tiling.split_k > 1 ? 1 : 2; }
  /// Partial sums from the cluster's other blocks; one of them sends an owner so many bytes.
  constexpr int parts() const { return stores() + tiling.math_groups * store_buffers() * kStoreBytes; }
  constexpr int part_bytes() const { return tiling.block_m * tiling.columns() * 4; }
  /// A row of addends for each math group, 4 bytes each.
  constexpr int addends() const { return parts() + (tiling.split_k - 1) * part_bytes(); }
  constexpr int addend_row_bytes() const { return tiling.block_n * 4; }
  constexpr int barriers() const { return addends() + tiling.math_groups * addend_row_bytes(); }
  /// Columns of a transposed product, each of 64 elements, that a math group stores at once: as many as fit in both
  /// buffers together, if these are all, else equal parts that fit in one of them.
  static constexpr int lines_at_once(int columns, int out_bytes) {
    if (columns * 64 * out_bytes <= 2 * kStoreBytes) return columns;
    int lines = kStoreBytes / 64 / out_bytes;
    while (columns % lines != 0) lines -= 8;
    return lines;
  }
  /// Columns of any other product in a line of a buffer: 128 bytes, or fewer where equal parts need it.
  static constexpr int columns_at_once(int columns, int out_bytes) {
    int bytes = kRowBytes;
    while (columns * out_bytes % bytes != 0) bytes /= 2;
    return bytes / out_bytes;
  }
  constexpr int bytes() const { return barriers() + (2 * tiling.stages + 1) * kBarrierBytes; }
};

}  // namespace kiln::ops
