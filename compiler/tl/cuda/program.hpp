#pragma once

#include "compiler/tl/target.hpp"

namespace kiln::tl {

/// Above this many programs a kernel does not let the next one in before it ends. That instruction costs each program
/// 80 ns during which its multiprocessor starts no other (H200): more than is gained where more than one comes to each.
inline constexpr unsigned kMostProgramsToLetIn = 128;

/// Under KILN_OVERLAPS_PREVIOUS this program may run while the kernel before it on the stream still does
/// (LaunchGeometry::overlaps_previous): waits for the end of that one and for what it wrote. Then, in a small grid, it
/// lets the kernel behind this one start as early; behind a larger one that starts as programs end. Without it there is
/// nothing to wait for, and this is no instruction. program_id does it too; a kernel that touches memory or returns
/// before it asks for its id calls this first.
///
/// Every program waits, so a kernel ends after the one before it, which ended after the one before that: whoever waits
/// for one kernel has waited for all before. Waiting before the next kernel is let in, rather than behind, keeps at
/// most two kernels of a stream on the device. The clobber holds back every access that follows.
KILN_DEVICE void wait_for_previous() {
#if defined(KILN_OVERLAPS_PREVIOUS)
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (gridDim.x * gridDim.y * gridDim.z <= kMostProgramsToLetIn) asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// This program's index along a grid axis (0, 1 or 2). 64 bits wide, so that program_id(0) * BLOCK_SIZE cannot
/// overflow.
KILN_DEVICE int64_t program_id(int axis) {
  wait_for_previous();
  return axis == 0 ? blockIdx.x : axis == 1 ? blockIdx.y : blockIdx.z;
}

/// A barrier of the program's threads, which those of warps that copy for it have no part in.
KILN_DEVICE void sync_threads() {
  if constexpr (kNumCopyWarps == 0)
    __syncthreads();
  else
    asm volatile("bar.sync 0, %0;" ::"n"(kNumThreads) : "memory");
}

/// Every thread of the program waits until all have come here, and sees what they stored before: a program calls it
/// between a store and a load of the same addresses, which another of its threads may make.
KILN_DEVICE void debug_barrier() {
  sync_threads();
}

/// Programs along a grid axis.
KILN_DEVICE int64_t num_programs(int axis) {
  return axis == 0 ? gridDim.x : axis == 1 ? gridDim.y : gridDim.z;
}

/// `value`, which is the same in all threads of a warp, such that ptxas knows it: by a reduction, whose result is a
/// warp's. What is computed from the program's number by a division it takes for a thread's own.
KILN_DEVICE int agreed(int value) {
  return static_cast<int>(__reduce_or_sync(0xffffffffu, static_cast<unsigned int>(value)));
}

}  // namespace kiln::tl
