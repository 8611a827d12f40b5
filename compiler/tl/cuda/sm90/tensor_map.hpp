#pragma once

#include "compiler/tl/cuda/sm90/barrier.hpp"

namespace kiln::tl::sm90 {

/// A CUtensorMap: the copy engine's description of a tensor and of the box that one copy moves. A kernel takes it as
/// `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

/// Reads the description ahead of its first use.
KILN_DEVICE void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(&map)) : "memory");
}

/// Box at (x, y, z), x innermost and at a multiple of 16 bytes, into shared memory (aligned to 128 bytes, to 1024 with
/// a 128-byte swizzle); elements outside the tensor become 0. Its bytes, all of them, complete on `barrier`.
KILN_DEVICE void copy_box(uint32_t shared, const TensorMap& map, Barrier barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(barrier.address), "r"(x), "r"(y), "r"(z)
      : "memory");
}

/// As copy_box, of four dimensions.
KILN_DEVICE void copy_box(uint32_t shared, const TensorMap& map, Barrier barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(barrier.address), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

/// As copy_box, into the same place in every block of the cluster whose bit in `blocks` is set, completing on each
/// one's own barrier.
KILN_DEVICE void copy_box_to_blocks(uint32_t shared, const TensorMap& map, Barrier barrier, int x, int y, int z,
                                    uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5}], [%2], %6;" ::"r"(shared),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(barrier.address), "r"(x), "r"(y), "r"(z), "h"(blocks)
      : "memory");
}

/// A box of shared memory to (x, y, z), none negative and x at a multiple of 16 bytes; what lies outside the tensor is
/// not written, but for the rest of the 16 bytes in which a row ends. By one thread, after writes_ready() in every
/// thread that wrote the box and a barrier.
KILN_DEVICE void store_box(const TensorMap& map, uint32_t shared, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                   reinterpret_cast<uint64_t>(&map)),
               "r"(shared), "r"(x), "r"(y), "r"(z)
               : "memory");
}
/// Ends a group of store_box calls of this thread.
KILN_DEVICE void end_store_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Until at most kGroups of this thread's latest groups still read shared memory.
template <int kGroups>
KILN_DEVICE void wait_until_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory");
}

}  // namespace kiln::tl::sm90
