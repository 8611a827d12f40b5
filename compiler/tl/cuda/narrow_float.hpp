#pragma once

#include "compiler/tl/target.hpp"
#include "core/float_formats.hpp"

namespace kiln::tl::narrow_float {

// PTX conversions where the architecture has them: one or two instructions with core/float_formats.hpp's results, bit
// for bit but for the payloads of f16 and bf16 NaNs.

KILN_DEVICE float f16_to_f32(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

KILN_DEVICE uint16_t f32_to_f16(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

KILN_DEVICE float bf16_to_f32(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

KILN_DEVICE uint16_t f32_to_bf16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/// Two values at once, `first` in the lower half.
template <bool kBfloat16>
KILN_DEVICE uint32_t f32_pair_to(float first, float second) {
  uint32_t pair;
  if constexpr (kBfloat16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

#if __CUDA_ARCH__ >= 890

KILN_DEVICE float lower_half(uint32_t pair) {
  return f16_to_f32(static_cast<uint16_t>(pair));
}

KILN_DEVICE float fp8e4m3_to_f32(uint8_t bits) {
  uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(bits)));
  return lower_half(pair);
}

KILN_DEVICE float fp8e5m2_to_f32(uint8_t bits) {
  uint32_t pair;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(bits)));
  return lower_half(pair);
}

// The instructions saturate; what rounds past the largest finite value becomes NaN (e4m3) or infinity (e5m2) instead,
// and NaN keeps its sign.

KILN_DEVICE uint8_t with_sign_of(float value, uint32_t magnitude) {
  return static_cast<uint8_t>((magnitude & 0x7f) | ((__builtin_bit_cast(uint32_t, value) >> 24) & 0x80));
}

KILN_DEVICE uint8_t f32_to_fp8e4m3(float value) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return with_sign_of(
      value, fabsf(value) <= 464.0f ? pair : 0x7f);  // 464 lies between 448 and the NaN pattern, and ties to 448
}

KILN_DEVICE uint8_t f32_to_fp8e5m2(float value) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  // 61440 lies between 57344 and infinity, and ties to infinity.
  return with_sign_of(value, fabsf(value) < 61440.0f ? pair : value != value ? 0x7f : 0x7c);
}

#else

using formats::f32_to_fp8e4m3;
using formats::f32_to_fp8e5m2;
using formats::fp8e4m3_to_f32;
using formats::fp8e5m2_to_f32;

#endif

}  // namespace kiln::tl::narrow_float
