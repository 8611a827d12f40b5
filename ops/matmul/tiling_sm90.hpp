#pragma once

#include <cstdint>

#include "ops/matmul/call_sm90.hpp"
#include "ops/matmul/iteration_sm90.hpp"

namespace kiln::matmul {

/// BLOCK_M, BLOCK_N, NUM_STAGES, CLUSTER_M, CLUSTER_N, SPLIT_K, MATH_GROUPS, TILE_EACH and GROUP_M: what
/// ops/matmul/kernel_sm90.cuh says of them. Every config of it can launch.
ConfigSpace sm90_space(Sm90Form form);
/// The config of the least estimated time on so many processors.
Config default_sm90_tiling(const Sm90Call& call, std::int64_t out_bytes, std::int64_t processors);

ops::MatmulSm90Places sm90_places(const Config& config);
/// SPLIT_K, or less where k has fewer blocks of 128 bytes, or where few processors are to be used.
std::int64_t sm90_split_k(const Config& config, std::int64_t k_blocks, std::int64_t num_sms);
/// Blocks of 128 bytes of k.
std::int64_t sm90_k_blocks(const Sm90Call& call);

}  // namespace kiln::matmul
