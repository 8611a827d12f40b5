#pragma once

#include <cstdint>

#include "ops/matmul/call_sm90.hpp"
#include "ops/matmul/kernel_sm90_tiling.hpp"

namespace kiln::matmul {

/// BLOCK_M, BLOCK_N, NUM_STAGES, CLUSTER_M, CLUSTER_N, SPLIT_K, MATH_GROUPS, TILE_EACH and RESIDENT are
/// MatmulSm90Tiling's; GROUP_M cluster rows make a band (see MatmulSm90Iteration). K_SHARE: tiles that do not occupy
/// all clusters are shared, so many blocks of k to each at least; 0: none are. EXCHANGE: see sm90_oriented. Every
/// config of it can launch.
ConfigSpace sm90_space(Sm90Form form);
/// The config of the least estimated time on so many processors.
Config default_sm90_tiling(const Sm90Call& call, std::int64_t out_bytes, std::int64_t processors);

/// The call, or where EXCHANGE is 1 and the kernel takes the operands so, the same product as out^T = b^T @ a^T.
Sm90Call sm90_oriented(const Sm90Call& call, const Config& config);

/// How clusters of blocks divide a product among them.
struct Sm90Division {
  ops::MatmulSm90Tiling tiling{};          ///< what the config says, as far as the call has use for it
  std::int64_t rows = 0, columns = 0;      ///< of a matrix, in tiles of a cluster
  std::int64_t tiles = 0;                  ///< of all matrices
  std::int64_t whole_tiles = 0;            ///< the others are shared
  std::int64_t share = 0, num_shares = 0;  ///< blocks of k to a cluster, and clusters that have some
  std::int64_t clusters = 0;               ///< of the grid
  std::int64_t scratch_bytes() const;
};
/// For that many processors; without `may_split` k is left whole.
Sm90Division sm90_division(const Sm90Call& call, const Config& config, std::int64_t processors, bool may_split);
/// Blocks of 128 bytes of k.
std::int64_t sm90_k_blocks(const Sm90Call& call);

}  // namespace kiln::matmul
