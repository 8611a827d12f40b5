#pragma once

#include "compiler/tl/program.hpp"
#include "ops/matmul/iteration_sm90.hpp"

// What the blocks of kernel_sm90.cuh work on: tiles of the product, whole ones or parts of k of one.

namespace kiln::ops {

KILN_DEVICE int matmul_sm90_quotient(int x, MatmulSm90Divisor by) {
  return by.multiplier == 0 ? x : static_cast<int>(__umulhi(static_cast<unsigned int>(x), by.multiplier) >> by.shift);
}

/// The first row and column of a block's tile, and its matrix.
struct MatmulSm90Tile {
  int row, column, batch;
};

/// The tile of the block at (down, across) of a cluster whose tiles are number `index`: bands of cluster rows, so that
/// what neighbours read lies in the L2.
KILN_DEVICE MatmulSm90Tile matmul_sm90_tile(const MatmulSm90Iteration& it, int index, MatmulSm90TileShape shape,
                                            int down, int across) {
  const int batch = matmul_sm90_quotient(index, it.matrix), in_matrix = index - batch * it.matrix.divisor;
  const int band = matmul_sm90_quotient(in_matrix, it.band), in_band = in_matrix - band * it.band.divisor;
  const MatmulSm90Divisor rows = band == it.last_band ? it.last_band_rows : it.band_rows;
  const int column = matmul_sm90_quotient(in_band, rows);
  const int row = band * it.band_rows.divisor + in_band - column * rows.divisor;
  return {(row * shape.cluster_m + down) * shape.block_m, (column * shape.cluster_n + across) * shape.block_n, batch};
}

/// Blocks `begin` to `end` of k of a tile. Where these are not all, their sums go to `slot` of the scratch memory.
struct MatmulSm90Work {
  static constexpr int kWhole = -1;
  MatmulSm90Tile tile;
  int begin, end, slot;
  KILN_DEVICE int blocks() const { return end - begin; }
};

/// How far a cluster has come: the next of its whole tiles, then the blocks of k that are its team's share of the
/// others.
struct MatmulSm90Progress {
  int tile;
  int at, end;
};

/// The segments of k that the shares cut a team's tiles, number `tiles` of their kind, into, by team: first to last.
/// One alone is a whole tile.
struct MatmulSm90Segments {
  int first, last;
  KILN_DEVICE MatmulSm90Segments(const MatmulSm90Iteration& it, int tiles)
      : first(tiles * it.k_blocks / it.share), last(((tiles + 1) * it.k_blocks - 1) / it.share) {}
  /// Where a team's member leaves its sums. Both the team and its tiles of one segment are no less than those of the
  /// one before, and one is more.
  KILN_DEVICE static int slot(const MatmulSm90Iteration& it, int team, int tiles, int member) {
    return (team + tiles) * it.team.divisor + member;
  }
};

}  // namespace kiln::ops
