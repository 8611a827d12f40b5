#pragma once

#include "compiler/tl/cuda/sm90/wgmma_k_major.hpp"

namespace kiln::tl::sm90 {

#define KILN_LOADED_PRODUCTS(n, data, a_0, a_1, a_2, a_3, b_name, add_name)                                     \
  template <typename A, typename B, typename Accumulator>                                                       \
    requires(sizeof(A) != 2)                                                                                    \
  KILN_DEVICE void product(Accumulator(&d)[n / 2], const uint32_t(&a)[4], uint64_t b, bool accumulate) {        \
    KILN_K_MAJOR_PRODUCT(n, data, "{" a_0 ", " a_1 ", " a_2 ", " a_3 "}", KILN_WGMMA_LOADED, b_name, add_name); \
  }

/// d (+)= a @ b for tf32, fp8, i8 and u8, with a in registers (see Fragment), which may change once the product has
/// been waited for.
KILN_LOADED_PRODUCTS(8, KILN_WGMMA_DATA_4, "%4", "%5", "%6", "%7", "%8", "%9")
KILN_LOADED_PRODUCTS(16, KILN_WGMMA_DATA_8, "%8", "%9", "%10", "%11", "%12", "%13")
KILN_LOADED_PRODUCTS(32, KILN_WGMMA_DATA_16, "%16", "%17", "%18", "%19", "%20", "%21")
KILN_LOADED_PRODUCTS(48, KILN_WGMMA_DATA_24, "%24", "%25", "%26", "%27", "%28", "%29")
KILN_LOADED_PRODUCTS(64, KILN_WGMMA_DATA_32, "%32", "%33", "%34", "%35", "%36", "%37")
KILN_LOADED_PRODUCTS(80, KILN_WGMMA_DATA_40, "%40", "%41", "%42", "%43", "%44", "%45")
KILN_LOADED_PRODUCTS(96, KILN_WGMMA_DATA_48, "%48", "%49", "%50", "%51", "%52", "%53")
KILN_LOADED_PRODUCTS(112, KILN_WGMMA_DATA_56, "%56", "%57", "%58", "%59", "%60", "%61")
KILN_LOADED_PRODUCTS(128, KILN_WGMMA_DATA_64, "%64", "%65", "%66", "%67", "%68", "%69")
KILN_LOADED_PRODUCTS(160, KILN_WGMMA_DATA_80, "%80", "%81", "%82", "%83", "%84", "%85")
KILN_LOADED_PRODUCTS(192, KILN_WGMMA_DATA_96, "%96", "%97", "%98", "%99", "%100", "%101")
KILN_LOADED_PRODUCTS(224, KILN_WGMMA_DATA_112, "%112", "%113", "%114", "%115", "%116", "%117")
KILN_LOADED_PRODUCTS(256, KILN_WGMMA_DATA_128, "%128", "%129", "%130", "%131", "%132", "%133")

#undef KILN_LOADED_PRODUCTS

}  // namespace kiln::tl::sm90
