#pragma once

#include "compiler/tl/cuda/sm90/shared_memory.hpp"
#include "compiler/tl/number.hpp"

// Matrix products of a warpgroup (PTX: wgmma): d[64, N] (+)= a[64, K] @ b[K, N] K of 32 bytes: b in shared memory, a
// there or in the registers of 128 threads, d in these.

namespace kiln::tl::sm90 {

/// How an operand lies in shared memory, in rows of 128 bytes that the copy engine has swizzled (128-byte swizzle) in
/// groups of 8 rows. k: rows are m (or n), k is contiguous. mn: rows are k, m (or n) is contiguous, in panels of 128
/// bytes; 16-bit types only.
enum class Major { k, mn };

inline constexpr int kSwizzleBytes = 128;
inline constexpr int kSwizzleGroupBytes = 8 * kSwizzleBytes;

/// The descriptor of an operand that starts at `address`: k: of any number of rows; mn: panels `panel_bytes` apart.
/// kRowBytes: of a row and of its swizzle, 128, 64 or 32.
/// (PTX ISA, "Matrix descriptor": start, leading and stride offsets in units of 16 bytes, swizzle mode in the top
/// bits.)
template <int kRowBytes = kSwizzleBytes>
KILN_DEVICE constexpr uint64_t operand_descriptor(uint32_t address, int panel_bytes) {
  static_assert(kRowBytes == 128 || kRowBytes == 64 || kRowBytes == 32,
                "dot: lines of operands are whole numbers of 32 bytes");
  constexpr uint64_t kMode = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  return (kMode << 62) | (uint64_t{8 * kRowBytes / 16} << 32) | (static_cast<uint64_t>(panel_bytes / 16) << 16) |
         ((address & 0x3ffff) >> 4);
}

/// Bytes between the operand's step of one instruction (32 bytes of k) and the next.
template <typename T, Major kMajor>
inline constexpr int kStepBytes = kMajor == Major::k ? 32 : 32 / static_cast<int>(sizeof(T)) * kSwizzleBytes;

/// Registers are written and read by products from here on.
KILN_DEVICE void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
KILN_DEVICE void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most kGroups of the latest groups are running.
template <int kGroups>
KILN_DEVICE void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}
/// Keeps the compiler from moving accesses of d across: products run behind its back.
template <int kCount, typename Accumulator>
KILN_DEVICE void keep_registers(Accumulator (&d)[kCount]) {
  KILN_UNROLL for (int i = 0; i < kCount; ++i) {
    if constexpr (is_same<Accumulator, float>)
      asm volatile("" : "+f"(d[i])::"memory");
    else
      asm volatile("" : "+r"(d[i])::"memory");
  }
}

}  // namespace kiln::tl::sm90
