#pragma once

#include "compiler/tl/target.hpp"

namespace kiln::tl {

// The shared memory that a launch gives a kernel: the places of its pipelines, which take turns, from the beginning on,
// and behind these, at the end, that of an operand which is too large for what a kernel may declare.

KILN_DEVICE unsigned char* dynamic_shared_bytes() {
  extern __shared__ __align__(1024) unsigned char kiln_dynamic_shared[];
  return kiln_dynamic_shared;
}

KILN_DEVICE uint32_t given_dynamic_shared_bytes() {
  uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

/// Shared memory that a kernel declares, in bytes.
inline constexpr int kMostDeclaredBytes = 48 * 1024;

/// Shared memory of its own for the operand of a program that Make makes: a lambda, whose type no other operand has. A
/// kernel has room for one that it cannot, or does not (kIsLarge), declare.
template <int kBytes, typename Make, bool kIsLarge>
KILN_DEVICE unsigned char* operand_place() {
  if constexpr (kBytes <= kMostDeclaredBytes && !kIsLarge) {
    __shared__ alignas(1024) unsigned char place[kBytes];
    return place;
  } else {
    // The compiler reads this in the PTX (Artifact::dynamic_shared_bytes).
    asm volatile("// kiln.dynamic_operand_bytes %0" ::"n"(kBytes));
    return dynamic_shared_bytes() + ((given_dynamic_shared_bytes() - kBytes) & ~1023u);
  }
}

}  // namespace kiln::tl
