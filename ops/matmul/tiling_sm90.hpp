#pragma once

#include <cstdint>

#include "ops/matmul/call_sm90.hpp"
#include "ops/matmul/kernel_sm90_tiling.hpp"

namespace kiln::matmul {

inline constexpr std::int64_t kNoShare = 65536;

/// What a config of the sm_90a kernel says.
struct Sm90Choice {
  ops::MatmulSm90Tiling tiling{};
  /// Tiles that do not occupy all clusters are shared, so many blocks of k to each at least. kNoShare: none are, by a
  /// kernel that could.
  std::int64_t k_share = 0;
  bool exchanges = false;    ///< see sm90_oriented
  std::int64_t group_m = 8;  ///< cluster rows of a band (see MatmulSm90Iteration)
};

/// BLOCK_M, BLOCK_N, NUM_STAGES, CLUSTER_M, CLUSTER_N, SPLIT_K, MATH_GROUPS, TILE_EACH and RESIDENT are
/// MatmulSm90Tiling's, K_SHARE (0: no tiles are shared), EXCHANGE and GROUP_M are Sm90Choice's. Every config of it can
/// launch.
ConfigSpace sm90_space(Sm90Form form);
Sm90Choice sm90_choice(const Config& config);
Config sm90_config(const Sm90Choice& choice);
/// Whether threads have registers for the sums of a tile.
bool fits_registers(const ops::MatmulSm90Tiling& tiling, Sm90Form form);

/// The call, or where the choice exchanges and the kernel takes the operands so, the same product as out^T = b^T @ a^T.
Sm90Call sm90_oriented(const Sm90Call& call, const Sm90Choice& choice);

/// Multiprocessors that are to be used.
struct Sm90Processors {
  std::int64_t all;
  std::int64_t in_clusters;  ///< see usable_in_clusters
};

/// How clusters of blocks divide a product among them.
struct Sm90Division {
  ops::MatmulSm90Tiling tiling{};      ///< what the choice says, as far as the call has use for it
  std::int64_t rows = 0, columns = 0;  ///< of a matrix, in tiles of a cluster
  std::int64_t tiles = 0;              ///< of all matrices
  std::int64_t whole_tiles = 0;        ///< the others are shared
  std::int64_t band_rows = 1;          ///< see MatmulSm90Iteration, as team
  std::int64_t team = 1;
  std::int64_t share = 0, num_shares = 0;  ///< blocks of k to a cluster, and clusters that have some
  std::int64_t clusters = 0;               ///< of the grid
  std::int64_t clusters_at_once = 1;       ///< that run
  /// How often memory gives a and b: clusters at places of their own along k each read what does not stay in the L2.
  std::int64_t a_reads = 1, b_reads = 1;
  std::int64_t scratch_bytes() const;
};
/// Of an oriented call; without `may_split` k is left whole.
Sm90Division sm90_division(const Sm90Call& call, const Sm90Choice& choice, const Sm90Processors& processors,
                           bool may_split);

/// Blocks of 128 bytes of k.
std::int64_t sm90_k_blocks(const Sm90Call& call);

}  // namespace kiln::matmul
