#pragma once

#include "compiler/tl/target.hpp"

namespace kiln::tl::half {

// PTX conversions instead of core/float_formats.hpp's: one instruction, same results.

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

KILN_DEVICE float bf16_to_f32(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

KILN_DEVICE uint16_t f32_to_bf16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

}  // namespace kiln::tl::half
