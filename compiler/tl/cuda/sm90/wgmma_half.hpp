#pragma once

#include "compiler/tl/cuda/sm90/wgmma.hpp"
#include "compiler/tl/cuda/sm90/wgmma_registers.hpp"

// Matrix products of a warpgroup for types of 16 bits. They stand apart from those of other types because every kernel
// that includes the tile language reads them.

namespace kiln::tl::sm90 {

// Signs of the operands (1: as they are), and for 16-bit types whether each is mn, where it is in shared memory.
#define KILN_LOADED_HALF_PRODUCT(n, kind, names, data, a_name, b_name, add_name, b_mn)                   \
  KILN_WGMMA_PRODUCT(n, "k16.f32." kind, names, data("+f"), a_name, KILN_WGMMA_LOADED, b_name, add_name, \
                     ", 1, 1, " b_mn, , "n"(kMajorB == Major::mn))
#define KILN_HALF_PRODUCT(n, kind, names, data, a_name, b_name, add_name, a_mn, b_mn)                       \
  KILN_WGMMA_PRODUCT(n, "k16.f32." kind, names, data("+f"), a_name, KILN_WGMMA_DESCRIBED, b_name, add_name, \
                     ", 1, 1, " a_mn ", " b_mn, , "n"(kMajorA == Major::mn), "n"(kMajorB == Major::mn))
#define KILN_HALF_PRODUCTS(n, data, a_name, b_name, add_name, a_mn, b_mn)                                  \
  template <typename A, typename B, Major kMajorA, Major kMajorB>                                          \
    requires(sizeof(A) == 2)                                                                               \
  KILN_DEVICE void product(float(&d)[n / 2], uint64_t a, uint64_t b, bool accumulate) {                    \
    if constexpr (is_same<A, bfloat16>)                                                                    \
      KILN_HALF_PRODUCT(n, "bf16.bf16", KILN_WGMMA_NAMES_##n, data, a_name, b_name, add_name, a_mn, b_mn); \
    else                                                                                                   \
      KILN_HALF_PRODUCT(n, "f16.f16", KILN_WGMMA_NAMES_##n, data, a_name, b_name, add_name, a_mn, b_mn);   \
  }
#define KILN_LOADED_HALF_PRODUCTS(n, data, a_0, a_1, a_2, a_3, b_name, add_name, b_mn)                             \
  template <typename A, typename B, Major kMajorA, Major kMajorB>                                                  \
    requires(sizeof(A) == 2)                                                                                       \
  KILN_DEVICE void product(float(&d)[n / 2], const uint32_t(&a)[4], uint64_t b, bool accumulate) {                 \
    static_assert(kMajorA == Major::k, "registers hold rows of k");                                                \
    if constexpr (is_same<A, bfloat16>)                                                                            \
      KILN_LOADED_HALF_PRODUCT(n, "bf16.bf16", KILN_WGMMA_NAMES_##n, data, "{" a_0 ", " a_1 ", " a_2 ", " a_3 "}", \
                               b_name, add_name, b_mn);                                                            \
    else                                                                                                           \
      KILN_LOADED_HALF_PRODUCT(n, "f16.f16", KILN_WGMMA_NAMES_##n, data, "{" a_0 ", " a_1 ", " a_2 ", " a_3 "}",   \
                               b_name, add_name, b_mn);                                                            \
  }

/// d (+)= a @ b for the calling warpgroup: one instruction, issued and not awaited. d[4 * j + 2 * h + e] of thread t of
/// warp w holds row 16 * w + 8 * h + t / 4, column 8 * j + 2 * (t % 4) + e.
KILN_HALF_PRODUCTS(8, KILN_WGMMA_DATA_4, "%4", "%5", "%6", "%7", "%8")
KILN_HALF_PRODUCTS(16, KILN_WGMMA_DATA_8, "%8", "%9", "%10", "%11", "%12")
KILN_HALF_PRODUCTS(32, KILN_WGMMA_DATA_16, "%16", "%17", "%18", "%19", "%20")
KILN_HALF_PRODUCTS(48, KILN_WGMMA_DATA_24, "%24", "%25", "%26", "%27", "%28")
KILN_HALF_PRODUCTS(64, KILN_WGMMA_DATA_32, "%32", "%33", "%34", "%35", "%36")
KILN_HALF_PRODUCTS(80, KILN_WGMMA_DATA_40, "%40", "%41", "%42", "%43", "%44")
KILN_HALF_PRODUCTS(96, KILN_WGMMA_DATA_48, "%48", "%49", "%50", "%51", "%52")
KILN_HALF_PRODUCTS(112, KILN_WGMMA_DATA_56, "%56", "%57", "%58", "%59", "%60")
KILN_HALF_PRODUCTS(128, KILN_WGMMA_DATA_64, "%64", "%65", "%66", "%67", "%68")
KILN_HALF_PRODUCTS(160, KILN_WGMMA_DATA_80, "%80", "%81", "%82", "%83", "%84")
KILN_HALF_PRODUCTS(192, KILN_WGMMA_DATA_96, "%96", "%97", "%98", "%99", "%100")
KILN_HALF_PRODUCTS(224, KILN_WGMMA_DATA_112, "%112", "%113", "%114", "%115", "%116")
KILN_HALF_PRODUCTS(256, KILN_WGMMA_DATA_128, "%128", "%129", "%130", "%131", "%132")

/// The same with a in registers, which may change once the product has been waited for: register 2 * j + h of thread t
/// of warp w holds row 16 * w + 8 * h + t / 4, k 8 * j + 2 * (t % 4) and the next.
KILN_LOADED_HALF_PRODUCTS(8, KILN_WGMMA_DATA_4, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
KILN_LOADED_HALF_PRODUCTS(16, KILN_WGMMA_DATA_8, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
KILN_LOADED_HALF_PRODUCTS(32, KILN_WGMMA_DATA_16, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
KILN_LOADED_HALF_PRODUCTS(48, KILN_WGMMA_DATA_24, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
KILN_LOADED_HALF_PRODUCTS(64, KILN_WGMMA_DATA_32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
KILN_LOADED_HALF_PRODUCTS(80, KILN_WGMMA_DATA_40, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
KILN_LOADED_HALF_PRODUCTS(96, KILN_WGMMA_DATA_48, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
KILN_LOADED_HALF_PRODUCTS(112, KILN_WGMMA_DATA_56, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
KILN_LOADED_HALF_PRODUCTS(128, KILN_WGMMA_DATA_64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
KILN_LOADED_HALF_PRODUCTS(160, KILN_WGMMA_DATA_80, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
KILN_LOADED_HALF_PRODUCTS(192, KILN_WGMMA_DATA_96, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
KILN_LOADED_HALF_PRODUCTS(224, KILN_WGMMA_DATA_112, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
KILN_LOADED_HALF_PRODUCTS(256, KILN_WGMMA_DATA_128, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

#undef KILN_LOADED_HALF_PRODUCTS
#undef KILN_HALF_PRODUCTS
#undef KILN_LOADED_HALF_PRODUCT
#undef KILN_HALF_PRODUCT

}  // namespace kiln::tl::sm90
