#pragma once

#include "compiler/tl/cuda/sm90/shared_memory.hpp"

namespace kiln::tl::sm90 {

/// This block's number within its cluster.
KILN_DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// All threads of all blocks of the cluster have come here, whole warps each (see __syncwarp). Orders no memory but
/// what barriers_ready() announced: with ordering it is a fence of the whole GPU, which takes a microsecond.
KILN_DEVICE void cluster_meet() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/// Where `address` of this block's shared memory lies in that of block `rank` of the cluster.
KILN_DEVICE uint32_t address_in_block(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

}  // namespace kiln::tl::sm90
