#pragma once

#include "compiler/tl/cuda/conditional_access.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/straddled.hpp"

// Packets of 16 bytes of a row to global memory.

namespace kiln::tl {

/// 16 bytes to global memory in one instruction: of an assignment beside elements that are stored singly the optimiser
/// may make four, which doubled the time of a tile's end.
KILN_DEVICE void store_quad(void* to, uint4 quad) {
  asm volatile("{.reg .u64 a; cvta.to.global.u64 a, %0; st.global.v4.b32 [a], {%1, %2, %3, %4};}" ::"l"(to),
               "r"(quad.x), "r"(quad.y), "r"(quad.z), "r"(quad.w)
               : "memory");
}

/// The elements of a packet for which `wants(i)`, one by one: in a loop, for every packet of a tile has this, and
/// unrolled it was a tenth of a product's code.
template <Number T, typename Wants>
KILN_DEVICE void store_elements(T* to, uint4 packet, const Wants& wants) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  KILN_NO_UNROLL for (int i = 0; i < 16 / kSize; ++i) {
    if (wants(i)) {
      if constexpr (kSize == 8)
        memcpy(to + i, &packet, kSize);
      else
        to[i] = __builtin_bit_cast(T, static_cast<typename BitsOf<kSize>::type>(packet.x));
    }
    if constexpr (kSize == 8)
      packet = {packet.z, packet.w, 0, 0};
    else if constexpr (kSize == 4)
      packet = {packet.y, packet.z, packet.w, 0};
    else
      packet = {__funnelshift_r(packet.x, packet.y, 8 * kSize), __funnelshift_r(packet.y, packet.z, 8 * kSize),
                __funnelshift_r(packet.z, packet.w, 8 * kSize), packet.w >> 8 * kSize};
  }
}

/// Of a row that starts here, how many elements lie in front of its first whole packet of memory.
template <Number T>
KILN_DEVICE int elements_before_packet(const T* row) {
  return static_cast<int>(-reinterpret_cast<uint64_t>(row) & 15) / static_cast<int>(sizeof(T));
}

}  // namespace kiln::tl
