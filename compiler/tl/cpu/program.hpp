#pragma once

#include "compiler/tl/traits.hpp"

/// Program ids along the three axes, the grid's extents, and whether a program has streamed (kHasStreamed). The
/// compiler turns this global into a local of the entry point once everything is inlined into it, so it is neither
/// shared between threads nor in memory. A thread_local was the alternative: JIT-compiled code would pay a call per
/// access.
static long long kiln_program[7] __asm__("kiln_program");

namespace kiln::tl {

/// Kernels of the CPU never overlap: nothing, see cuda/program.hpp.
KILN_DEVICE void wait_for_previous() {}

/// This program's index along a grid axis (0, 1 or 2).
KILN_DEVICE int64_t program_id(int axis) {
  return kiln_program[axis];
}

/// A program of the CPU is one thread: nothing, see cuda/program.hpp.
KILN_DEVICE void debug_barrier() {}

/// Programs along a grid axis.
KILN_DEVICE int64_t num_programs(int axis) {
  return kiln_program[3 + axis];
}

}  // namespace kiln::tl

namespace kiln::tl::cpu {

/// Where kiln_program says that a streaming store was made, which is ordered after no other.
inline constexpr int kHasStreamed = 6;

template <typename F>
struct Parameters;
template <typename... P>
struct Parameters<void (*)(P...)> {
  template <void (*kKernel)(P...), int... kIndex>
  KILN_DEVICE static void run(void* const* parameters, const int64_t* grid, int64_t begin, int64_t end,
                              Sequence<kIndex...>) {
    // Copied out of the parameter array first: re-read per program they would have to be assumed to alias the kernel's
    // stores.
    run_loop<kKernel>(grid[0], grid[1], grid[2], begin, end, *static_cast<P*>(parameters[kIndex])...);
  }
  template <void (*kKernel)(P...)>
  KILN_DEVICE static void run_loop(int64_t extent0, int64_t extent1, int64_t extent2, int64_t begin, int64_t end,
                                   P... values) {
    kiln_program[3] = extent0;
    kiln_program[4] = extent1;
    kiln_program[5] = extent2;
    kiln_program[kHasStreamed] = 0;
    int64_t id0 = 0, id1 = 0, id2 = 0;
    if (begin != 0) {  // the divisions are a tenth of what a call of a few hundred elements takes
      id0 = begin % extent0;
      id1 = begin / extent0 % extent1;
      id2 = begin / extent0 / extent1;
    }
    for (int64_t program = begin; program < end; ++program) {
      kiln_program[0] = id0;
      kiln_program[1] = id1;
      kiln_program[2] = id2;
      kKernel(values...);
      if (++id0 == extent0) {
        id0 = 0;
        if (++id1 == extent1) {
          id1 = 0;
          ++id2;
        }
      }
    }
    if (kiln_program[kHasStreamed] != 0) __builtin_ia32_sfence();
  }
  static constexpr int kCount = sizeof...(P);
};

/// Runs programs [begin, end) of a linearised grid, axis 0 fastest. `parameters[i]` is the address of the kernel's
/// parameter i.
template <auto kKernel>
KILN_DEVICE void run_programs(void* const* parameters, const int64_t* grid, int64_t begin, int64_t end) {
  using P = Parameters<decltype(kKernel)>;
  P::template run<kKernel>(parameters, grid, begin, end, make_sequence<P::kCount>());
}

}  // namespace kiln::tl::cpu
