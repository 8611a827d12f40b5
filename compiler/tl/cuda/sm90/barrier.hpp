#pragma once

#include "compiler/tl/cuda/sm90/cluster.hpp"

namespace kiln::tl::sm90 {

/// An mbarrier in shared memory: a phase ends when `arrivals` threads have arrived and every byte that was announced
/// has come. Waiting is for the phase of a parity, phases counted from 0; a waiter may be one phase behind, no more.
struct Barrier {
  static constexpr int kBytes = 8;
  uint32_t address;  ///< see shared_address

  /// By one thread, before barriers_ready().
  KILN_DEVICE void init(uint32_t arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  /// By one thread, when nobody waits or arrives any more: the memory may become something else.
  KILN_DEVICE void invalidate() const {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(address) : "memory");
  }
  KILN_DEVICE void arrive() const {
    asm volatile("{\n .reg .b64 token;\n mbarrier.arrive.shared::cta.b64 token, [%0];\n}" ::"r"(address) : "memory");
  }
  /// Arrives at this barrier's counterpart in block `rank` of the cluster. Says that this thread has read, and orders
  /// no writes: with release at cluster scope every call would be a fence of the whole GPU.
  KILN_DEVICE void arrive_in_block(uint32_t rank) const {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in_block(address, rank)) : "memory");
  }
  /// Arrives, and announces bytes that the copy engine will write.
  KILN_DEVICE void arrive_and_expect(uint32_t bytes) const {
    asm volatile("{\n .reg .b64 token;\n mbarrier.arrive.expect_tx.shared::cta.b64 token, [%0], %1;\n}" ::"r"(address),
                 "r"(bytes)
                 : "memory");
  }
  /// Announces bytes that the copy engine will write, in a phase that this thread's arrival is still missing in.
  KILN_DEVICE void expect(uint32_t bytes) const {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
  }
  /// Returns when the phase of this parity has ended.
  KILN_DEVICE void wait(uint32_t parity) const {
    asm volatile(
        "{\n .reg .pred done;\n"
        "again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n @!done bra again;\n}" ::"r"(address),
        "r"(parity)
        : "memory");
  }
};

/// 16 bytes to the counterpart of `address` in block `rank` of the cluster; they count at that block's counterpart of
/// `barrier`, whose waiters see them. Illegal in kernels without a cluster of two blocks or more.
KILN_DEVICE void send_to_block(uint32_t address, uint4 value, Barrier barrier, uint32_t rank) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   address_in_block(address, rank)),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(address_in_block(barrier.address, rank))
               : "memory");
}

/// What init did is seen by the copy engine and by the cluster's other blocks; they wait for it by cluster_meet().
KILN_DEVICE void barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// A position in a ring of kStages slots, with the parity of the slot's phase.
template <int kStages>
struct RingPosition {
  uint32_t slot = 0;
  uint32_t parity = 0;

  KILN_DEVICE void advance() {
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
  /// As `count` times advance().
  KILN_DEVICE void advance(uint32_t count) {
    const uint32_t total = slot + count;
    parity ^= (total / kStages) & 1;
    slot = total % kStages;
  }
};

}  // namespace kiln::tl::sm90
