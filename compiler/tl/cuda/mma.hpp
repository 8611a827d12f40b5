#pragma once

#include "compiler/tl/number.hpp"

// The tensor cores' instructions, sums in place: sums[16 x 8] += a[16 x K] * b[K x 8], as MmaPlaces says who holds
// what.

namespace kiln::tl {

#define KILN_MMA(shape, types, constraint)                                                                 \
  asm("mma.sync.aligned." shape ".row.col." types                                                          \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "                                       \
      "%3};"                                                                                               \
      : "+" constraint(sums[0]), "+" constraint(sums[1]), "+" constraint(sums[2]), "+" constraint(sums[3]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

/// A and B: the operands' types; float stands for tf32, the operands' low 13 bits being ignored.
template <typename A, typename B>
KILN_DEVICE void mma(float* sums, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (is_same<A, float16>)
    KILN_MMA("m16n8k16", "f32.f16.f16.f32", "f");
  else if constexpr (is_same<A, bfloat16>)
    KILN_MMA("m16n8k16", "f32.bf16.bf16.f32", "f");
  else if constexpr (is_same<A, float>)
    KILN_MMA("m16n8k8", "f32.tf32.tf32.f32", "f");
  else if constexpr (is_same<A, float8e4m3> && is_same<B, float8e4m3>)
    KILN_MMA("m16n8k32", "f32.e4m3.e4m3.f32", "f");
  else if constexpr (is_same<A, float8e4m3>)
    KILN_MMA("m16n8k32", "f32.e4m3.e5m2.f32", "f");
  else if constexpr (is_same<B, float8e4m3>)
    KILN_MMA("m16n8k32", "f32.e5m2.e4m3.f32", "f");
  else
    KILN_MMA("m16n8k32", "f32.e5m2.e5m2.f32", "f");
}
template <typename A, typename B>
KILN_DEVICE void mma(int32_t* sums, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (is_same<A, int8_t> && is_same<B, int8_t>)
    KILN_MMA("m16n8k32", "s32.s8.s8.s32", "r");
  else if constexpr (is_same<A, int8_t>)
    KILN_MMA("m16n8k32", "s32.s8.u8.s32", "r");
  else if constexpr (is_same<B, int8_t>)
    KILN_MMA("m16n8k32", "s32.u8.s8.s32", "r");
  else
    KILN_MMA("m16n8k32", "s32.u8.u8.s32", "r");
}
#undef KILN_MMA

template <typename A, typename B>
KILN_DEVICE void mma(double* sums, const double (&a)[4], double b0, double b1) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1));
#else
  KILN_UNROLL for (int i = 0; i < 4; ++i) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sums[i % 2 * 2]), "+d"(sums[i % 2 * 2 + 1])
        : "d"(a[i]), "d"(i < 2 ? b0 : b1));
  }
#endif
}

/// Rounded to tf32's 11 bits, to nearest; without it the low bits would be cut off. Halves go to even where that is one
/// instruction, and away from zero where neither is.
KILN_DEVICE uint32_t round_to_tf32(uint32_t bits) {
  uint32_t rounded;
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__builtin_bit_cast(float, bits)));
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__builtin_bit_cast(float, bits)));
#endif
  return rounded;
}

/// Whether fp8 operands become f16 on their way to the tensor cores. Those of sm_80 do not take them, and the
/// instruction that sm_90 and sm_100 have for warps is slower than f16's and sums in fewer bits, corrected by
/// additions.
#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
inline constexpr bool kWidensFp8 = false;
#else
inline constexpr bool kWidensFp8 = true;
#endif

/// fp8 as pairs of f16, exactly: bytes 0 and 1, then bytes 2 and 3. For GPUs that have no such conversion.
template <typename T>
KILN_DEVICE void widen_fp8_by_bits(uint32_t bytes, uint32_t& low, uint32_t& high) {
  // Each byte as the upper half of a f16.
  low = __byte_perm(bytes, 0, 0x1404);
  high = __byte_perm(bytes, 0, 0x3424);
  if constexpr (is_same<T, float8e4m3>) {
    // The exponent has one bit less, and a bias of 7 instead of 15: shifted into place the number is 2^8 too small,
    // subnormals too. The one pattern that is NaN would become 480.
    const auto move_exponent = [](uint32_t pair) {
      const uint32_t magnitude = (pair & 0x7f007f00u) >> 1;
      uint32_t scaled;
      asm("mul.f16x2 %0, %1, %2;" : "=r"(scaled) : "r"(magnitude), "r"(0x5c005c00u));
      const uint32_t is_nan = (magnitude + 0x00800080u) & 0x40004000u;
      return scaled | is_nan >> 1 | (pair & 0x80008000u);
    };
    low = move_exponent(low);
    high = move_exponent(high);
  }
}

template <typename T>
KILN_DEVICE void widen_fp8(uint32_t bytes, uint32_t& low, uint32_t& high) {
#if __CUDA_ARCH__ >= 890
  const auto first = static_cast<uint16_t>(bytes), second = static_cast<uint16_t>(bytes >> 16);
  if constexpr (is_same<T, float8e4m3>) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(low) : "h"(first));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(high) : "h"(second));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(low) : "h"(first));
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(high) : "h"(second));
  }
#else
  widen_fp8_by_bits<T>(bytes, low, high);
#endif
}

}  // namespace kiln::tl
