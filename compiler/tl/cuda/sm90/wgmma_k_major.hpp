#pragma once

#include "compiler/tl/cuda/sm90/wgmma.hpp"
#include "compiler/tl/cuda/sm90/wgmma_registers.hpp"

// Matrix products of a warpgroup for tf32, fp8, i8 and u8, whose operands in shared memory have k contiguous. Those
// with a in registers stand apart (wgmma_k_major_loaded.hpp): the tile language has no use for them.

namespace kiln::tl::sm90 {

#define KILN_PRODUCTS(n, data, a_name, b_name, add_name)                                         \
  template <typename A, typename B, Major kMajorA, Major kMajorB, typename Accumulator>          \
    requires(sizeof(A) != 2)                                                                     \
  KILN_DEVICE void product(Accumulator(&d)[n / 2], uint64_t a, uint64_t b, bool accumulate) {    \
    static_assert(kMajorA == Major::k && kMajorB == Major::k, "only 16-bit operands may be mn"); \
    KILN_K_MAJOR_PRODUCT(n, data, a_name, KILN_WGMMA_DESCRIBED, b_name, add_name);               \
  }

/// d (+)= a @ b, as wgmma_half.hpp has it.
KILN_PRODUCTS(8, KILN_WGMMA_DATA_4, "%4", "%5", "%6")
KILN_PRODUCTS(16, KILN_WGMMA_DATA_8, "%8", "%9", "%10")
KILN_PRODUCTS(32, KILN_WGMMA_DATA_16, "%16", "%17", "%18")
KILN_PRODUCTS(48, KILN_WGMMA_DATA_24, "%24", "%25", "%26")
KILN_PRODUCTS(64, KILN_WGMMA_DATA_32, "%32", "%33", "%34")
KILN_PRODUCTS(80, KILN_WGMMA_DATA_40, "%40", "%41", "%42")
KILN_PRODUCTS(96, KILN_WGMMA_DATA_48, "%48", "%49", "%50")
KILN_PRODUCTS(112, KILN_WGMMA_DATA_56, "%56", "%57", "%58")
KILN_PRODUCTS(128, KILN_WGMMA_DATA_64, "%64", "%65", "%66")
KILN_PRODUCTS(160, KILN_WGMMA_DATA_80, "%80", "%81", "%82")
KILN_PRODUCTS(192, KILN_WGMMA_DATA_96, "%96", "%97", "%98")
KILN_PRODUCTS(224, KILN_WGMMA_DATA_112, "%112", "%113", "%114")
KILN_PRODUCTS(256, KILN_WGMMA_DATA_128, "%128", "%129", "%130")

#undef KILN_PRODUCTS

}  // namespace kiln::tl::sm90
