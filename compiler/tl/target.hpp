#pragma once

// The host compiles a kernel with exactly one of KILN_TARGET_CUDA and KILN_TARGET_CPU defined to 1. On CUDA it adds
// KILN_NUM_WARPS (warps of a program) and KILN_VECTOR_WIDTH (consecutive elements that a thread holds, so that one
// access moves up to 16 bytes), KILN_OVERLAPS_PREVIOUS where launches may overlap (tl::wait_for_previous), and
// KILN_COPY_WARPS where a block has that many warps beside its program's, which copy for it (tl::chained_pipeline): the
// entry is then tl::with_copy_warps, and a kernel the function that its program's warps run.

// KILN_KERNEL_OF(programs) is KILN_KERNEL for a kernel of which a multiprocessor is to run so many programs at a time:
// the compiler gives each no more registers than that leaves it. The number may be a template parameter, and tuned.
#if defined(KILN_TARGET_CUDA)
#if defined(KILN_COPY_WARPS)
#define KILN_KERNEL __device__ __forceinline__
#define KILN_KERNEL_OF(programs) KILN_KERNEL
#else
#define KILN_COPY_WARPS 0
#define KILN_KERNEL __global__ __launch_bounds__(32 * KILN_NUM_WARPS)
#define KILN_KERNEL_OF(programs) __global__ __launch_bounds__(32 * KILN_NUM_WARPS, programs)
#endif
#define KILN_DEVICE __device__ __forceinline__
#define KILN_UNROLL _Pragma("unroll")
#elif defined(KILN_TARGET_CPU)
#define KILN_KERNEL inline
#define KILN_KERNEL_OF(programs) inline
#define KILN_DEVICE inline __attribute__((always_inline))
#define KILN_UNROLL
#else
#error "kiln/tl.hpp: define KILN_TARGET_CUDA or KILN_TARGET_CPU to 1; Kiln's compilers do"
#endif

/// For loops whose trip count is only known at run time: unrolled copies cost compile time and instruction cache and
/// save nothing.
#define KILN_NO_UNROLL _Pragma("unroll 1")

/// For loops over tiles: what shall be in vectors is the tile. Of small tiles LLVM takes several turns of the loop
/// together, with gathers, which is up to ten times slower.
#if defined(KILN_TARGET_CUDA)
#define KILN_TILE_LOOP KILN_NO_UNROLL
#else
#define KILN_TILE_LOOP _Pragma("clang loop unroll(disable) vectorize(disable)")
#endif

#define INFINITY __builtin_bit_cast(float, 0x7f800000u)
#define NAN __builtin_bit_cast(float, 0x7fc00000u)

namespace kiln::tl {

#if defined(KILN_TARGET_CUDA)
inline constexpr int kNumWarps = KILN_NUM_WARPS;
inline constexpr int kNumThreads = 32 * KILN_NUM_WARPS;
inline constexpr int kVectorWidth = KILN_VECTOR_WIDTH;
inline constexpr int kNumCopyWarps = KILN_COPY_WARPS;
#else
inline constexpr int kNumCopyWarps = 0;
#endif

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;

}  // namespace kiln::tl

using kiln::tl::int16_t;
using kiln::tl::int32_t;
using kiln::tl::int64_t;
using kiln::tl::int8_t;
using kiln::tl::uint16_t;
using kiln::tl::uint32_t;
using kiln::tl::uint64_t;
using kiln::tl::uint8_t;
