#pragma once

#include <cstdint>

#include "ops/matmul/call_sm90.hpp"
#include "ops/matmul/kernel_sm90_tiling.hpp"

namespace kiln::matmul {

/// BLOCK_M, BLOCK_N, NUM_STAGES, CLUSTER_M, CLUSTER_N, SPLIT_K, MATH_GROUPS and TILE_EACH are MatmulSm90Tiling's;
/// GROUP_M cluster rows make a band (see MatmulSm90Iteration). Every config of it can launch.
ConfigSpace sm90_space(Sm90Form form);
/// The config of the least estimated time on so many processors.
Config default_sm90_tiling(const Sm90Call& call, std::int64_t out_bytes, std::int64_t processors);

/// What a config says, as the kernel takes it.
ops::MatmulSm90Tiling sm90_tiling(const Config& config);
/// SPLIT_K, or less where k has fewer blocks of 128 bytes, or where few processors are to be used.
std::int64_t sm90_split_k(const Config& config, std::int64_t k_blocks, std::int64_t num_sms);
/// Blocks of 128 bytes of k.
std::int64_t sm90_k_blocks(const Sm90Call& call);

}  // namespace kiln::matmul
