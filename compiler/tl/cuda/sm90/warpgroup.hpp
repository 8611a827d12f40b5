#pragma once

#include "compiler/tl/target.hpp"

namespace kiln::tl::sm90 {

/// Threads of a warpgroup: four warps, the first at a multiple of four.
inline constexpr int kWarpgroupThreads = 128;

/// Registers of each thread of the calling warpgroup from here on; kept or given back to the block's pool. A multiple
/// of 8 from 24 to 240; the kernel needs a bound on its threads and blocks.
template <int kRegisters>
KILN_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
KILN_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// A barrier of `threads` threads under a name of its own (1 to 15; 0 is __syncthreads).
KILN_DEVICE void named_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/// Counts the calling thread in without waiting.
KILN_DEVICE void named_arrive(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/// True in one thread of the calling warp, all of whose threads ask. Of what this thread does alone the compiler knows
/// that it is one, which a comparison of its number does not say.
KILN_DEVICE bool is_elected() {
  uint32_t elected;
  asm volatile("{\n .reg .pred one;\n elect.sync _|one, 0xffffffff;\n selp.u32 %0, 1, 0, one;\n}" : "=r"(elected));
  return elected != 0;
}

/// `value`, which is the same in all threads of a warp, in a register that the warp shares: descriptors made of it need
/// no copies.
KILN_DEVICE int warp_uniform(int value) {
  return __shfl_sync(0xffffffffu, value, 0);
}

}  // namespace kiln::tl::sm90
