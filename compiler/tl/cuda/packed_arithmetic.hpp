#pragma once

#include "compiler/tl/broadcast.hpp"

namespace kiln::tl {

// Two 16-bit floats in one instruction. Rounding a sum, difference or product of theirs to their format in one step
// gives the bits that float and a second rounding give, since float's 24 bits are at least 2 * 11 + 2 (Figueroa, "When
// is double rounding innocuous?", 1995): unpacking eight bf16 pairs, adding in float and packing takes 28 instructions
// for 4 of these. Subnormals are kept; a NaN's payload may differ. The rounding is named in each, which keeps ptxas
// from fusing a product with a sum.

template <typename T>
inline constexpr bool is_packable = false;
template <>
inline constexpr bool is_packable<float16> = true;
template <>
inline constexpr bool is_packable<bfloat16> = true;

#define KILN_PACKED(instruction, a, b) asm(instruction " %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b))
#define KILN_PACKED_FMA(a, b, c) asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c))

template <typename T>
KILN_DEVICE uint32_t add_pair(uint32_t x, uint32_t y) {
  uint32_t result;
  if constexpr (is_same<T, float16>)
    KILN_PACKED("add.rn.f16x2", x, y);
  else
#if __CUDA_ARCH__ >= 900
    KILN_PACKED("add.rn.bf16x2", x, y);
#else
    KILN_PACKED_FMA(x, 0x3f803f80u, y);  // x * 1 + y
#endif
  return result;
}

template <typename T>
KILN_DEVICE uint32_t subtract_pair(uint32_t x, uint32_t y) {
  uint32_t result;
  if constexpr (is_same<T, float16>)
    KILN_PACKED("sub.rn.f16x2", x, y);
  else
#if __CUDA_ARCH__ >= 900
    KILN_PACKED("sub.rn.bf16x2", x, y);
#else
    KILN_PACKED_FMA(y, 0xbf80bf80u, x);  // y * -1 + x
#endif
  return result;
}

template <typename T>
KILN_DEVICE uint32_t multiply_pair(uint32_t x, uint32_t y) {
  uint32_t result;
  if constexpr (is_same<T, float16>)
    KILN_PACKED("mul.rn.f16x2", x, y);
  else
#if __CUDA_ARCH__ >= 900
    KILN_PACKED("mul.rn.bf16x2", x, y);
#else
    KILN_PACKED_FMA(x, y, 0x80008000u);  // x * y + -0, which keeps the sign of a zero product
#endif
  return result;
}

#undef KILN_PACKED
#undef KILN_PACKED_FMA

/// f over pairs of registers.
template <typename F, typename T, typename S, typename L>
KILN_DEVICE Tile<T, S, L> map_pairs(F f, const Tile<T, S, L>& a, const Tile<T, S, L>& b) {
  Tile<T, S, L> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; r += 2) {
    uint32_t x, y;
    memcpy(&x, &a.registers[r], sizeof(x));
    memcpy(&y, &b.registers[r], sizeof(y));
    const uint32_t pair = f(x, y);
    memcpy(&result.registers[r], &pair, sizeof(pair));
  }
  return result;
}

// More specialised than arithmetic.hpp's operators, so these are taken where they apply.

template <typename T, typename S, typename L>
  requires(is_packable<T> && L::kRegisters % 2 == 0)
KILN_DEVICE auto operator+(const Tile<T, S, L>& a, const Tile<T, S, L>& b) {
  return map_pairs([](uint32_t x, uint32_t y) { return add_pair<T>(x, y); }, a, b);
}
template <typename T, typename S, typename L>
  requires(is_packable<T> && L::kRegisters % 2 == 0)
KILN_DEVICE auto operator-(const Tile<T, S, L>& a, const Tile<T, S, L>& b) {
  return map_pairs([](uint32_t x, uint32_t y) { return subtract_pair<T>(x, y); }, a, b);
}
template <typename T, typename S, typename L>
  requires(is_packable<T> && L::kRegisters % 2 == 0)
KILN_DEVICE auto operator*(const Tile<T, S, L>& a, const Tile<T, S, L>& b) {
  return map_pairs([](uint32_t x, uint32_t y) { return multiply_pair<T>(x, y); }, a, b);
}

// With a number for each row, which every thread that needs it has.

template <typename E, typename S, typename L>
inline constexpr bool kIsOfRows = S::kColumns > 1 && L::kRegisters % 2 == 0 && kBroadcastsInPlace<E, S, L>;

template <typename T, typename S, typename L, typename E>
  requires(is_packable<T> && kIsOfRows<E, S, L>)
KILN_DEVICE auto operator+(const Tile<T, S, L>& a, const Tile<T, Shape<S::kRows, 1>, E>& b) {
  return a + broadcast_to_shape<S, L>(b);
}
template <typename T, typename S, typename L, typename E>
  requires(is_packable<T> && kIsOfRows<E, S, L>)
KILN_DEVICE auto operator-(const Tile<T, S, L>& a, const Tile<T, Shape<S::kRows, 1>, E>& b) {
  return a - broadcast_to_shape<S, L>(b);
}
template <typename T, typename S, typename L, typename E>
  requires(is_packable<T> && kIsOfRows<E, S, L>)
KILN_DEVICE auto operator*(const Tile<T, S, L>& a, const Tile<T, Shape<S::kRows, 1>, E>& b) {
  return a * broadcast_to_shape<S, L>(b);
}

}  // namespace kiln::tl
