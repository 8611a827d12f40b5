#pragma once

#include "compiler/tl/cast.hpp"

// Shared memory by 32-bit addresses, as the asynchronous units' instructions take them: half the registers of pointers,
// and offsets are added in one instruction.

namespace kiln::tl::sm90 {

KILN_DEVICE uint32_t shared_address(const void* pointer) {
  uint32_t address;
  asm("{\n .reg .u64 wide;\n cvta.to.shared.u64 wide, %1;\n cvt.u32.u64 %0, wide;\n}"
      : "=r"(address)
      : "l"(reinterpret_cast<uint64_t>(pointer)));
  return address;
}

/// Orders this thread's ordinary writes to shared memory before the asynchronous units' reads.
KILN_DEVICE void writes_ready() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// The same of all memory: what this thread wrote, or has seen written, the asynchronous units read and overwrite.
KILN_DEVICE void all_writes_ready() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

/// 1, 2, 4, 8 or 16 bytes to an address that is a multiple of as many. Ordered among the accesses of this file and the
/// barriers alone: loads of other memory may pass it, so that many of them are on their way at once.
template <typename T>
KILN_DEVICE void put_shared(uint32_t address, const T& value) {
  if constexpr (sizeof(T) == 16) {
    uint4 bits;
    memcpy(&bits, &value, sizeof bits);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(bits.x), "r"(bits.y), "r"(bits.z),
                 "r"(bits.w));
  } else if constexpr (sizeof(T) == 8) {
    uint2 bits;
    memcpy(&bits, &value, sizeof bits);
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(bits.x), "r"(bits.y));
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(__builtin_bit_cast(uint32_t, value)));
  } else if constexpr (sizeof(T) == 2) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(__builtin_bit_cast(uint16_t, value)));
  } else {
    const uint16_t bits = __builtin_bit_cast(uint8_t, value);
    asm volatile("st.shared.b8 [%0], %1;" ::"r"(address), "h"(bits));
  }
}

KILN_DEVICE uint4 get_shared_quad(uint32_t address) {
  uint4 bits;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "r"(address)
               : "memory");
  return bits;
}
/// Two elements of 4 bytes.
template <Number T>
KILN_DEVICE void get_shared_pair(uint32_t address, T (&values)[2]) {
  static_assert(sizeof(T) == 4, "get_shared_pair: elements of 4 bytes");
  uint2 bits;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "r"(address));
  memcpy(values, &bits, sizeof values);
}
/// One element.
template <Number T>
KILN_DEVICE T get_shared(uint32_t address) {
  if constexpr (sizeof(T) == 4) {
    uint32_t bits;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
    return __builtin_bit_cast(T, bits);
  } else {
    static_assert(sizeof(T) <= 2, "get_shared: elements of 1, 2 or 4 bytes");
    uint16_t bits;
    if constexpr (sizeof(T) == 2) {
      asm volatile("ld.shared.b16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
      return __builtin_bit_cast(T, bits);
    } else {
      asm volatile("ld.shared.u8 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
      return __builtin_bit_cast(T, static_cast<uint8_t>(bits));
    }
  }
}

/// Four 8 x 8 matrices of 16-bit elements from a warp's registers (PTX: stmatrix): thread t holds elements 2 * (t % 4)
/// and the next of row t / 4 of each, and gives the address of row t % 8 of matrix t / 8.
KILN_DEVICE void put_matrices(uint32_t row_address, const uint32_t (&matrices)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address), "r"(matrices[0]),
               "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3]));
}

/// The same, each transposed: what the addresses are of are the matrices' columns.
KILN_DEVICE void put_matrices_transposed(uint32_t column_address, const uint32_t (&matrices)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(column_address),
               "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3]));
}

/// Four such matrices from shared memory, each transposed (PTX: ldmatrix): thread t gets elements t / 4 of rows
/// 2 * (t % 4) and the next of each, and gives the address of row t % 8 of matrix t / 8.
KILN_DEVICE void get_matrices_transposed(uint32_t row_address, uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row_address));
}

/// Two neighbouring elements, cast and written with one access.
template <Number Out, Number T>
KILN_DEVICE void put_pair(uint32_t address, T first, T second) {
  if constexpr ((is_same<Out, bfloat16> || is_same<Out, float16>) && is_same<T, float>) {
    put_shared(address, narrow_float::f32_pair_to<is_same<Out, bfloat16>>(first, second));
  } else {
    struct alignas(2 * sizeof(Out)) Pair {
      Out first, second;
    };
    put_shared(address, Pair{cast<Out>(first), cast<Out>(second)});
  }
}

}  // namespace kiln::tl::sm90
