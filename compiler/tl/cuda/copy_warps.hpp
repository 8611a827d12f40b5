#pragma once

#include "compiler/tl/cuda/box_copy.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/sm90/warpgroup.hpp"

namespace kiln::tl {

// Warps beside a program's own that ask the copy engine for boxes. A warp that multiplies would wait, in front of each
// request, until all others are done with the place that it fills, and so hold all of them to one step; the order of
// CUTLASS's warp-specialised kernels and FlashAttention-3 (Shah et al., 2024) has warps of their own for that. The
// program's warps know the addresses, so these are told: a message has the boxes of up to 32 steps.

static_assert(kNumCopyWarps == 0 || (kNumCopyWarps == 4 && kNumWarps % 4 == 0),
              "warps that copy are a warpgroup, beside a program of whole ones");

/// Of the 168 registers that a thread of 12 warps begins with, those that copy give most to the others. Programs of 4
/// warps have as many as there can be, and nobody has any to spare beside 16.
inline constexpr bool kGivesRegisters = kNumWarps == 8;
inline constexpr int kRegistersOfProgram = 232, kRegistersOfCopies = 40;

/// What to copy: `steps` steps, 0 where there is nothing more, from `slot` of a ring on.
struct CopyOrder {
  static constexpr int kMostSteps = 32, kMostBoxes = 8;
  uint32_t steps;
  uint32_t slot, parity;
  uint32_t num_stages, stage_bytes;
  uint32_t box_bytes;                ///< of a step; a stage may be larger
  uint32_t stages, filled, emptied;  ///< shared addresses: of places, and of a barrier for each (sm90::Barrier)
  uint32_t num_boxes;
  uint32_t offsets[kMostBoxes];  ///< of boxes in a stage
  const BoxMapTable* tables[kMostBoxes];
  BoxPlace places[kMostSteps][kMostBoxes];
};

/// The order, how many there were before this pipeline, and barriers for "it is written" and "it is done".
struct CopyMail {
  alignas(16) CopyOrder order;
  uint32_t orders;
  uint64_t written, done;
};

KILN_DEVICE CopyMail& copy_mail() {
  __shared__ CopyMail mail;
  return mail;
}
KILN_DEVICE sm90::Barrier order_written() {
  return {shared_window_address(reinterpret_cast<unsigned char*>(&copy_mail().written))};
}
KILN_DEVICE sm90::Barrier order_done() {
  return {shared_window_address(reinterpret_cast<unsigned char*>(&copy_mail().done))};
}

/// Copies one order, a box a lane. What it says is read anew in each step: these warps have few registers.
KILN_DEVICE void carry_out(const volatile CopyOrder& order) {
  const uint32_t lane = threadIdx.x % 32, box = lane % CopyOrder::kMostBoxes;
  const BoxMapTable& table = *order.tables[box];
  const uint32_t to = order.stages + order.offsets[box];
  uint32_t slot = order.slot, parity = order.parity;
  KILN_NO_UNROLL for (uint32_t step = 0; step < order.steps; ++step) {
    sm90::Barrier{order.emptied + slot * sm90::Barrier::kBytes}.wait(parity);
    const sm90::Barrier filled{order.filled + slot * sm90::Barrier::kBytes};
    if (lane == 0) filled.arrive_and_expect(order.box_bytes);
    __syncwarp();
    const volatile BoxPlace& place = order.places[step][box];
    if (lane < order.num_boxes)
      BoxPlace{place.place, place.far_place, place.from}.copy(to + slot * order.stage_bytes, table, filled);
    if (++slot == order.num_stages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

/// What warps that copy do: orders, until there are no more.
KILN_DEVICE void carry_out_orders() {
  if constexpr (kGivesRegisters) sm90::give_registers<kRegistersOfCopies>();
  if (threadIdx.x / 32 != kNumWarps) return;
  KILN_NO_UNROLL for (uint32_t parity = 0;; parity ^= 1) {
    order_written().wait(parity);
    const volatile CopyOrder& order = copy_mail().order;
    if (order.steps == 0) return;
    carry_out(order);
    __syncwarp();
    if (threadIdx.x % 32 == 0) order_done().arrive();
  }
}

/// The kernel that is launched where warps copy for the program that kKernel is.
template <auto kKernel, typename... Parameters>
__global__ __launch_bounds__(kNumThreads + 32 * kNumCopyWarps, 1) void with_copy_warps(Parameters... parameters) {
  if (threadIdx.x == 0) {
    order_written().init(kNumWarps);
    order_done().init(1);
    sm90::barriers_ready();
    copy_mail().orders = 0;
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) >= kNumThreads) return carry_out_orders();
  if constexpr (kGivesRegisters) sm90::take_registers<kRegistersOfProgram>();
  kKernel(parameters...);
  __syncwarp();
  if (threadIdx.x == 0) copy_mail().order.steps = 0;
  if (threadIdx.x % 32 == 0) order_written().arrive();
}

template <auto kKernel, typename Kernel = decltype(kKernel)>
inline constexpr Kernel entry_with_copy_warps = nullptr;
/// How the host names that kernel.
template <auto kKernel, typename... Parameters>
inline constexpr auto entry_with_copy_warps<kKernel, void (*)(Parameters...)> =
    &with_copy_warps<kKernel, Parameters...>;

}  // namespace kiln::tl
